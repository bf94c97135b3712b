/** Docker daemons of the test's own. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { freePort } from "../fixtures/free_port.ts";
import { type RunOutput, runTool } from "../e2e/harness.ts";
import { type Inside, startNamespace } from "./namespace.ts";
import { makeAuthority } from "./pki.ts";

export interface DockerdOptions {
  /** Default "20.10", which is the host's own; "28" comes from Debian's unstable suite. */
  version?: "20.10" | "28";
  /** The image store; only 28 has "containerd". Default "graph". */
  store?: "graph" | "containerd";
  /**
   * "host": the host's network without any of docker's: containers have none. "own": a network namespace
   * with all of docker's networks, which the test enters. Default "host".
   */
  network?: "host" | "own";
  /** It listens on the loopback interface too, asking for a certificate with "tls". */
  tcp?: "plain" | "tls";
  /** More of daemon.json. */
  config?: Record<string, unknown>;
}

export interface DockerdPeer extends AsyncDisposable {
  /** DOCKER_HOST: its unix socket, which is `docker.sock` in the folder. */
  readonly host: string;
  /** DOCKER_HOST of its TCP socket, to be reached from within its network. */
  readonly tcp: string;
  /** DOCKER_CERT_PATH for `tcp` with TLS. */
  readonly certificates: string;
  /** See `Namespace.enter`: published ports are on 127.0.0.1 then, and containers have their addresses. */
  enter(): Disposable;
  /** See `Namespace.inside`. */
  inside(...command: string[]): string[];
  /** Docker's client; throws where it fails. */
  docker(...args: string[]): Promise<RunOutput>;
  /** Ends the daemon, and with it the containers. */
  stop(): Promise<void>;
  /** Ends the daemon without notice. */
  kill9(): Promise<void>;
  start(): Promise<void>;
}

const READY_MS = 120_000;

/** ca.pem, cert.pem and key.pem for clients in `folder`, and flags of the daemon. */
async function certificatesIn(folder: string): Promise<string[]> {
  await Deno.mkdir(folder, { recursive: true });
  const authority = await makeAuthority(folder);
  const server = await authority.issue("server");
  const client = await authority.issue("client");
  await Deno.copyFile(client.cert, join(folder, "cert.pem"));
  await Deno.copyFile(client.key, join(folder, "key.pem"));
  return [
    "--tlsverify",
    "--tlscacert",
    authority.cert,
    "--tlscert",
    server.cert,
    "--tlskey",
    server.key,
  ];
}

/** Takes away the empty control groups of a daemon that was ended without notice. */
async function removeGroups(name: string): Promise<void> {
  const tops = ["/sys/fs/cgroup"];
  for await (const entry of Deno.readDir(tops[0])) {
    if (entry.isDirectory) tops.push(join(tops[0], entry.name));
  }
  const groups = tops.map((top) => join(top, name)).filter((path) => existsSync(path));
  // A process that was killed is in its group for a moment more.
  for (const until = Date.now() + 60_000; groups.length > 0;) {
    // It fails for those that an earlier round took away.
    await new Deno.Command("find", {
      args: [...groups, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";"],
      stderr: "null",
    }).output();
    if (!groups.some((path) => existsSync(path))) return;
    if (Date.now() > until) {
      throw new Error(`Cannot remove the control groups ${groups.join(", ")}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Runs a daemon with its data, state and socket in `folder`, which must be on a local disk. */
export async function startDockerd(
  folder: string,
  options: DockerdOptions = {},
): Promise<DockerdPeer> {
  const { version = "20.10", store = "graph", network = "host" } = options;
  await Deno.mkdir(folder, { recursive: true });
  const host = `unix://${folder}/docker.sock`;
  const certificates = join(folder, "certificates");
  const group = `svc-peer-${crypto.randomUUID().slice(0, 8)}`;
  // Another daemon of the host's network may have the usual one.
  const port = network === "own" ? 2376 : freePort();
  const tcp = options.tcp ? `tcp://127.0.0.1:${port}` : "";
  const config = {
    "data-root": join(folder, "data"),
    "exec-root": join(folder, "exec"),
    pidfile: join(folder, "pid"),
    "cgroup-parent": `/${group}`,
    hosts: [host, ...(tcp ? [tcp] : [])],
    ...(network === "host" && { bridge: "none", iptables: false, "ip-forward": false }),
    ...(version === "28" && { features: { "containerd-snapshotter": store === "containerd" } }),
    ...options.config,
  };
  await Deno.writeTextFile(join(folder, "daemon.json"), JSON.stringify(config));
  const flags = options.tcp === "tls"
    ? await certificatesIn(certificates)
    : options.tcp
    ? ["--tls=false"]
    : [];
  const namespace = await startNamespace(folder, {
    unstable: version === "28",
    hostNetwork: network === "host",
  });
  const log = join(folder, "dockerd.log");
  let daemon: Inside;

  const answers = () => runTool("docker", ["-H", host, "version"]).then(() => true, () => false);
  const stop = async () => {
    await daemon.signal("SIGTERM");
    const timer = setTimeout(() => daemon.signal("SIGKILL"), 60_000);
    await daemon.ended;
    clearTimeout(timer);
  };
  const kill9 = async () => {
    await daemon.signal("SIGKILL");
    await daemon.ended;
  };
  const start = async () => {
    // One that was ended without notice leaves it.
    await Deno.remove(config.pidfile).catch(() => {});
    daemon = namespace.start(
      ["dockerd", "--config-file", join(folder, "daemon.json"), ...flags],
      { log },
    );
    for (const until = Date.now() + READY_MS; !await answers();) {
      if (daemon.hasEnded() || Date.now() > until) {
        await kill9();
        const text = await Deno.readTextFile(log);
        throw new Error(`dockerd ${version} did not start:\n${text.slice(-3000)}`);
      }
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  };
  // Containers and mounts go with the namespace.
  const end = async () => {
    await namespace[Symbol.asyncDispose]();
    await removeGroups(group);
  };
  try {
    await start();
  } catch (error) {
    await namespace[Symbol.asyncDispose]();
    throw error;
  }
  return {
    ...{ host, tcp, certificates, stop, kill9, start },
    enter: namespace.enter,
    inside: namespace.inside,
    docker: (...args) => runTool("docker", ["-H", host, ...args]),
    [Symbol.asyncDispose]: end,
  };
}
