/**
 * Steps of a rootless server: a namespace with pasta in it, else slirp4netns, which open its connections as
 * the server's user. To the host those come from the host itself: a step gets no way to its addresses.
 */
import { spawn } from "node:child_process";
import { dirname, join } from "node:path";
import { SvcError } from "../base/errors.ts";
import { ensureDir } from "../base/fs.ts";
import type { Logger } from "../base/log.ts";
import { run, runOk } from "../base/process.ts";
import { createNetns, removeNetns } from "../runtime/netns.ts";
import { ReadyPool } from "../runtime/ready_pool.ts";
import { type OwnNetworks, reachableNameservers, type StepNetwork } from "./networks.ts";

export interface UserNetworksOptions {
  /** Of the namespaces, of this server alone; a reboot empties it. */
  folder: string;
  log: Logger;
}

interface Endpoint {
  path: string;
  /** The host's when it was made. */
  addresses: string;
  /** Ends the program that serves it, where that does not end with the namespace's file. */
  end?: () => void;
}

interface Program {
  /** Where it answers DNS, to a step. */
  nameserver: string;
  /** Serves the namespace; resolves when it does. */
  start(path: string, signal?: AbortSignal): Promise<Endpoint["end"]>;
}

/**
 * A namespace's file, in a folder of its own: pasta watches that folder, and looks at the first of several
 * changes alone. Where namespaces went together it stayed.
 */
const NAMESPACE = "net";

/** Of a /30 that no network has. */
const PASTA_DNS = "169.254.1.1";

const PROGRAMS: Record<string, Program> = {
  // It leads to the host's loopback by the gateway's address, unless told not to; and it ends when the
  // namespace's file is gone.
  pasta: {
    nameserver: PASTA_DNS,
    start: async (netns, signal) => {
      const closed = ["-t", "-u", "-T", "-U"].flatMap((way) => [way, "none"]);
      const args = ["--config-net", "--no-map-gw", ...closed, "--dns-forward", PASTA_DNS];
      await runOk("Cannot connect a network namespace", "pasta", [
        ...args,
        "--quiet",
        "--netns-only",
        "--netns",
        netns,
      ], { signal });
      return undefined;
    },
  },
  slirp4netns: {
    nameserver: "10.0.2.3",
    start: async (netns, signal) => {
      const options = ["--configure", "--mtu=65520", "--disable-host-loopback"];
      const pipes = ["--ready-fd=3", "--exit-fd=4", "--netns-type=path"];
      const child = spawn("slirp4netns", [...options, ...pipes, netns, "tap0"], {
        // It ends when the last one is closed: with this process too.
        stdio: ["ignore", "ignore", "pipe", "pipe", "pipe"],
      });
      let words = "";
      child.stderr!.on("data", (chunk) => words += chunk);
      const end = () => void child.kill("SIGKILL");
      const ready = Promise.withResolvers<void>();
      child.stdio[3]!.once("data", () => ready.resolve());
      const failed = () =>
        ready.reject(
          new SvcError("internal", `Cannot connect a network namespace: ${words.trim()}`),
        );
      child.once("exit", failed);
      child.once("error", failed);
      signal?.addEventListener("abort", end, { once: true });
      await ready.promise.finally(() => signal?.removeEventListener("abort", end));
      return end;
    },
  },
};

/** Throws `prerequisite_missing` where none of them is installed. */
async function findProgram(): Promise<Program> {
  for (const [name, program] of Object.entries(PROGRAMS)) {
    const { code } = await run("sh", ["-c", 'command -v -- "$1"', "sh", name]);
    if (code === 0) return program;
  }
  throw new SvcError(
    "prerequisite_missing",
    "neither pasta nor slirp4netns is installed, one of which a rootless server needs",
    { help: "install passt (apt-get install passt), or slirp4netns" },
  );
}

/** Those of this host that another namespace could ask for. */
const hostAddresses = (): string[] =>
  Deno.networkInterfaces().map(({ address }) => address)
    .filter((address) => !/^(127\.|::1$|fe80:)/.test(address)).sort();

export class UserNetworks implements OwnNetworks {
  #options: UserNetworksOptions;
  #pool: ReadyPool<Endpoint>;
  #program: Promise<Program> | undefined;

  constructor(options: UserNetworksOptions) {
    this.#options = options;
    this.#pool = new ReadyPool({
      make: (signal) => this.#make(signal),
      isGood: ({ addresses }) => Promise.resolve(addresses === hostAddresses().join()),
      remove: (endpoint) => this.#remove(endpoint),
      log: options.log,
    });
  }

  async recover(): Promise<void> {
    const { folder } = this.#options;
    await ensureDir(folder, 0o700);
    for await (const { name } of Deno.readDir(folder)) {
      await this.#remove({ path: join(folder, name, NAMESPACE), addresses: "" });
    }
    this.#pool.prepare();
  }

  async take(
    { trusted, signal }: { trusted: boolean; signal: AbortSignal },
  ): Promise<StepNetwork> {
    const endpoint = await this.#pool.take(signal);
    const { nameserver } = await this.#found();
    const reachable = (await reachableNameservers())
      .filter((address) => !endpoint.addresses.split(",").includes(address));
    return {
      mode: { path: endpoint.path },
      gateway: "127.0.0.1",
      names: { nameservers: reachable.length > 0 ? reachable : [nameserver] },
      [Symbol.asyncDispose]: () => this.#pool.giveBack(endpoint, { spoiled: trusted }),
    };
  }

  #found(): Promise<Program> {
    return this.#program ??= findProgram().catch((error) => {
      this.#program = undefined;
      throw error;
    });
  }

  async #make(signal?: AbortSignal): Promise<Endpoint> {
    const program = await this.#found();
    const own = join(this.#options.folder, `ready-${crypto.randomUUID().slice(0, 8)}`);
    const path = join(own, NAMESPACE);
    const addresses = hostAddresses();
    const endpoint: Endpoint = { path, addresses: addresses.join() };
    try {
      await Deno.mkdir(own, { mode: 0o700 });
      await createNetns(path, signal);
      endpoint.end = await program.start(path, signal);
      const lines = addresses.map((address) => `route add prohibit ${address}`);
      await runOk("Cannot keep a network namespace from the host", "nsenter", [
        `--net=${path}`,
        "ip",
        "-batch",
        "-",
      ], { stdin: ["link set lo up", ...lines, ""].join("\n"), signal });
      // Link-local addresses are of an interface, and routes without one do not bound them.
      if (Deno.networkInterfaces().some(({ family }) => family === "IPv6")) {
        await runOk("Cannot keep a network namespace from the host", "nsenter", [
          `--net=${path}`,
          ..."ip -6 rule add to fe80::/10 prohibit".split(" "),
        ], { signal });
      }
      return endpoint;
    } catch (error) {
      await this.#remove(endpoint);
      throw error;
    }
  }

  async #remove({ path, end }: Endpoint): Promise<void> {
    try {
      end?.();
      await removeNetns(path);
      await Deno.remove(dirname(path)).catch((error) => {
        if (!(error instanceof Deno.errors.NotFound)) throw error;
      });
    } catch (error) {
      this.#options.log.warn("a network namespace was not removed", { path, error });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#pool.stop();
    await Deno.remove(this.#options.folder).catch(() => {/* something could not be removed */});
  }
}
