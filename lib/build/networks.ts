/** Which network a step has: SVC_BUILD_NETWORK, and what RUN --network asks for. */
import { SvcError } from "../base/errors.ts";
import { nameservers } from "../runtime/dns/forward.ts";
import type { NetworkMode } from "../runtime/spec.ts";

export interface StepNetwork extends AsyncDisposable {
  mode: NetworkMode;
  /** What `host-gateway` is, to the step. */
  gateway: string;
  /** Absent: names are the host's, as its resolv.conf and hosts file have them. */
  names?: { nameservers: readonly string[] };
}

export interface StepNetworks extends AsyncDisposable {
  /** Clears what a crashed server left, and gets ready for steps. */
  recover(): Promise<void>;
  /**
   * Until it is disposed of, the network is this step's alone. `trusted`: a step that may change its network,
   * which nobody else has afterwards. Throws `prerequisite_missing` naming what to install.
   */
  take(
    wanted: "default" | "none" | "host",
    options: { trusted: boolean; signal: AbortSignal },
  ): Promise<StepNetwork>;
}

/** Networks of steps that have one of their own. */
export type OwnNetworks = Pick<StepNetworks, "recover" | typeof Symbol.asyncDispose> & {
  take(options: { trusted: boolean; signal: AbortSignal }): Promise<StepNetwork>;
};

const LOOPBACK = "127.0.0.1";

/** The host's own, or none at all: nothing to make and nothing to give back. */
const plain = (mode: "host" | "none"): StepNetwork => ({
  mode,
  gateway: LOOPBACK,
  [Symbol.asyncDispose]: () => Promise.resolve(),
});

/** `usual` is what a step has that asks for nothing. */
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

/** Those that the host's resolv.conf names, but for its loopback, which a step has not. */
export async function reachableNameservers(): Promise<string[]> {
  for (const path of ["/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"]) {
    // Our own: the host's file.
    const text = await Deno.readTextFile(path).catch(() => "");
    const found = nameservers(text).filter((address) => !/^(127\.|::1$|fe80:)/.test(address));
    if (found.length > 0) return found;
  }
  return [];
}

/** The host's resolv.conf with other name servers: its search list and options go on. */
export function resolvConf(host: string, servers: readonly string[]): string {
  const kept = host.split("\n").filter((line) => /^\s*(search|domain|options)\s/.test(line));
  return [...servers.map((address) => `nameserver ${address}`), ...kept, ""].join("\n");
}
