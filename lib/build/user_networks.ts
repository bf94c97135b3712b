/**
 * Networks of a rootless server's steps: each namespace is connected by pasta, else by slirp4netns, which
 * opens connections as the server's user. To the host these connections look like its own, so a step gets no
 * route to the host's addresses.
 */
import { spawn } from "node:child_process";
import { dirname, join } from "node:path";
import { SvcError } from "../base/errors.ts";
import { ensureDir, ifThere } from "../base/fs.ts";
import type { Logger } from "../base/log.ts";
import { run, runOk } from "../base/process.ts";
import { createNetns, removeNetns } from "../runtime/netns.ts";
import { ReadyPool } from "../runtime/ready_pool.ts";
import { type OwnNetworks, reachableNameservers, type StepNetwork } from "./networks.ts";

export interface UserNetworksOptions {
  /** Folder of this server's namespaces; a reboot empties it. */
  folder: string;
  log: Logger;
}

interface Endpoint {
  path: string;
  /** The host's addresses when the namespace was made. */
  addresses: string;
  /**
   * Ends the program that connects the namespace; absent where the program ends by itself when the
   * namespace's file is removed.
   */
  end?: () => void;
}

interface Program {
  /** Address at which the program answers DNS queries of a step. */
  nameserver: string;
  /** Connects the namespace at `path`; resolves once it is connected. */
  start(path: string, signal?: AbortSignal): Promise<Endpoint["end"]>;
}

/**
 * Name of a namespace's file. Each file has a folder of its own: pasta watches the folder and handles only
 * the first of several changes in it, so that with a common folder it would miss its own file's removal.
 */
const NAMESPACE = "net";

/** An address of a /30 that no network uses. */
const PASTA_DNS = "169.254.1.1";

const PROGRAMS: Record<string, Program> = {
  // By default pasta maps the gateway's address to the host's loopback; --no-map-gw prevents that. pasta
  // ends when the namespace's file is removed.
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
        // The program ends when the last pipe (--exit-fd) is closed, and so also with this process.
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

/** Throws `prerequisite_missing` where neither program is installed. */
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

/** Addresses of this host that another namespace could reach. */
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
      // A route without an interface does not cover link-local addresses, so a rule prohibits them.
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
      await ifThere(Deno.remove(dirname(path)));
    } catch (error) {
      this.#options.log.warn("a network namespace was not removed", { path, error });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#pool.stop();
    await Deno.remove(this.#options.folder).catch(() => {/* the folder still has entries */});
  }
}
