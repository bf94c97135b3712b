/** The network of a step, from SVC_BUILD_NETWORK and RUN --network. */
import { SvcError } from "../base/errors.ts";
import { nameservers } from "../runtime/dns/forward.ts";
import type { NetworkMode } from "../runtime/spec.ts";

export interface StepNetwork extends AsyncDisposable {
  mode: NetworkMode;
  /** Address that `host-gateway` means in the step. */
  gateway: string;
  /** Name servers of the step; absent: the step uses the host's resolv.conf and hosts file. */
  names?: { nameservers: readonly string[] };
}

export interface StepNetworks extends AsyncDisposable {
  /** Removes what a crashed server left, and prepares for steps. */
  recover(): Promise<void>;
  /**
   * A network for one step alone, until it is disposed of. `trusted`: a step that may change its network,
   * which no later step gets. Throws `prerequisite_missing`, which names what to install.
   */
  take(
    wanted: "default" | "none" | "host",
    options: { trusted: boolean; signal: AbortSignal },
  ): Promise<StepNetwork>;
}

/** Provides networks that belong to one step each. */
export type OwnNetworks = Pick<StepNetworks, "recover" | typeof Symbol.asyncDispose> & {
  take(options: { trusted: boolean; signal: AbortSignal }): Promise<StepNetwork>;
};

const LOOPBACK = "127.0.0.1";

/** The host's network, or none: nothing is made and nothing has to be removed. */
const plain = (mode: "host" | "none"): StepNetwork => ({
  mode,
  gateway: LOOPBACK,
  [Symbol.asyncDispose]: () => Promise.resolve(),
});

/** `usual`: network of a step that asks for none. */
export function stepNetworks(usual: OwnNetworks | "host" | "none"): StepNetworks {
  const own = typeof usual === "string" ? undefined : usual;
  return {
    recover: async () => await own?.recover(),
    take: async (wanted, options) => {
      if (wanted !== "default") return plain(wanted);
      if (typeof usual === "string") return plain(usual);
      try {
        return await usual.take(options);
      } catch (error) {
        options.signal.throwIfAborted();
        if (!(error instanceof SvcError)) throw error;
        throw new SvcError(error.code, `Cannot give RUN a network: ${error.message}`, {
          cause: error,
          help:
            `${error.help ? `${error.help}; or ` : ""}set SVC_BUILD_NETWORK to none, or to host ` +
            "where every Dockerfile may reach what this host reaches; RUN --network=none needs none",
        });
      }
    },
    [Symbol.asyncDispose]: async () => await own?.[Symbol.asyncDispose](),
  };
}

/** The name servers of the host's resolv.conf without loopback addresses, which a step cannot reach. */
export async function reachableNameservers(): Promise<string[]> {
  for (const path of ["/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"]) {
    // Our own: the host's file.
    const text = await Deno.readTextFile(path).catch(() => "");
    const found = nameservers(text).filter((address) => !/^(127\.|::1$|fe80:)/.test(address));
    if (found.length > 0) return found;
  }
  return [];
}

/** The host's resolv.conf with other name servers; its search list and options stay. */
export function resolvConf(host: string, servers: readonly string[]): string {
  const kept = host.split("\n").filter((line) => /^\s*(search|domain|options)\s/.test(line));
  return [...servers.map((address) => `nameserver ${address}`), ...kept, ""].join("\n");
}
