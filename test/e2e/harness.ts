/** What the end-to-end tests share: a server of their own, the client, prerequisites, base images. */
import { join } from "node:path";
import { type BaseImageOptions, writeBaseLayout } from "../peers/base_image.ts";
import { BridgeRules } from "../../lib/runtime/bridge_rules.ts";
import { bridgeNetwork } from "../../lib/runtime/network.ts";
import { freePort } from "../fixtures/free_port.ts";
import { freeSubnetBase } from "../fixtures/free_subnet.ts";
import { removeRunState, removeServerData } from "../peers/cleanup.ts";
import { threadsOf } from "../fixtures/threads.ts";
import { eventually, PATIENCE_MS } from "../waits.ts";

export { freePort, freeSubnetBase };

/** The executable under test. */
export const EXECUTABLE = Deno.env.get("SVC_TEST_EXECUTABLE") ??
  join(import.meta.dirname!, "../../dist/svc");

export interface Needs {
  /** Programs on PATH (or in the sbin folders). */
  commands?: string[];
  root?: boolean;
  files?: string[];
}

export interface RunOutput {
  code: number;
  stdout: string;
  stderr: string;
}

export interface RunOptions {
  env?: Record<string, string>;
  cwd?: string;
  stdin?: string | Uint8Array;
  signal?: AbortSignal;
}

export interface Exit {
  code: number;
  signal: string | null;
}

function isFile(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false; // missing, or not to be seen
  }
}

function missing(needs: Needs): string[] {
  const folders = [...(Deno.env.get("PATH") ?? "").split(":"), "/usr/sbin", "/sbin"];
  const found: string[] = [];
  if (needs.root && Deno.uid() !== 0) found.push("root");
  for (const name of needs.commands ?? []) {
    if (!folders.some((folder) => isFile(join(folder, name)))) found.push(`the command ${name}`);
  }
  for (const path of needs.files ?? []) {
    if (!isFile(path)) found.push(`the file ${path}`);
  }
  return found;
}

/**
 * A test that needs things of the machine. Where they are missing it fails under `CI=true`, and is
 * skipped with the reason in its name and on standard error elsewhere.
 */
export function e2eTest(name: string, needs: Needs, fn: (t: Deno.TestContext) => Promise<void>) {
  const lacking = missing(needs).join(", ");
  const ci = Deno.env.get("CI") === "true";
  if (lacking && !ci) console.error(`skipped: ${name}: needs ${lacking}`);
  Deno.test({
    name: lacking && !ci ? `${name} (needs ${lacking})` : name,
    ignore: lacking !== "" && !ci,
    // The servers' pipes and sockets live as long as the servers, which tests dispose of.
    sanitizeOps: false,
    sanitizeResources: false,
    fn: async (t) => {
      if (lacking) throw new Error(`this test needs ${lacking}, and CI=true allows no skip`);
      await fn(t);
    },
  });
}

/**
 * The same as options for `Deno.test`: `{ ignore, reason }`. Under `CI=true` a missing prerequisite
 * throws, which fails the test file.
 */
export function requireTools(needs: Needs): { ignore: boolean; reason: string } {
  const lacking = missing(needs).join(", ");
  if (lacking && Deno.env.get("CI") === "true") {
    throw new Error(`these tests need ${lacking}, and CI=true allows no skip`);
  }
  if (lacking) console.error(`skipped: needs ${lacking}`);
  return { ignore: lacking !== "", reason: lacking && `needs ${lacking}` };
}

/** The environment without the person's own settings of svc. */
function environment(extra: Record<string, string>): Record<string, string> {
  const env: Record<string, string> = {};
  for (const [key, value] of Object.entries(Deno.env.toObject())) {
    if (!key.startsWith("SVC_")) env[key] = value;
  }
  env.PATH = `${env.PATH ?? "/usr/bin:/bin"}:/usr/sbin:/sbin`;
  return { ...env, ...extra };
}

/** Runs `svc ARGS` to its end. Without `SVC_SERVER` in `env` it speaks to nobody's server. */
export async function svc(args: string[], options: RunOptions = {}): Promise<RunOutput> {
  const child = new Deno.Command(EXECUTABLE, {
    args,
    cwd: options.cwd,
    clearEnv: true,
    env: environment({
      SVC_SERVER: "http://127.0.0.1:1",
      SVC_CONFIG: "/nonexistent/svc-test-config.yaml",
      ...options.env,
    }),
    signal: options.signal,
    stdin: options.stdin === undefined ? "null" : "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  if (options.stdin !== undefined) {
    const bytes = typeof options.stdin === "string"
      ? new TextEncoder().encode(options.stdin)
      : options.stdin;
    const writer = child.stdin.getWriter();
    writer.write(bytes as Uint8Array<ArrayBuffer>).then(() => writer.close()).catch(() => {
      // it ended without reading its input: the exit code tells
    });
  }
  const output = await child.output();
  const decoder = new TextDecoder();
  return {
    code: output.code,
    stdout: decoder.decode(output.stdout),
    stderr: decoder.decode(output.stderr),
  };
}

/** Runs another program; throws with its output where it fails. */
export async function runTool(
  command: string,
  args: string[],
  options: RunOptions = {},
): Promise<RunOutput> {
  const output = await new Deno.Command(command, {
    args,
    cwd: options.cwd,
    env: options.env,
    signal: options.signal,
    stdin: "null",
  }).output();
  const decoder = new TextDecoder();
  const result = {
    code: output.code,
    stdout: decoder.decode(output.stdout),
    stderr: decoder.decode(output.stderr),
  };
  if (result.code !== 0) {
    throw new Error(
      `${command} ${args.join(" ")} exited with ${result.code}:\n${result.stdout}${result.stderr}`,
    );
  }
  return result;
}

/** Of all servers of this host. */
const LEASES = "/run/svc/leases";

/** The bridges of a server's networks, their rules and leases: after a test they are litter. */
async function removeBridges(base: string): Promise<void> {
  for (const { name, address } of Deno.networkInterfaces()) {
    if (!address.startsWith(`${base}.`)) continue;
    await new Deno.Command("ip", { args: ["link", "delete", name], stderr: "null" }).output();
    await new BridgeRules().remove(bridgeNetwork(base, Number(address.split(".")[2])));
  }
  const prefix = bridgeNetwork(base, 0).bridge.slice(0, -1);
  const leases = await Array.fromAsync(Deno.readDir(LEASES)).catch(() => []);
  for (const { name } of leases) {
    if (name.startsWith(prefix)) await Deno.remove(join(LEASES, name), { recursive: true });
  }
}

export interface ServerOptions {
  args?: string[];
  env?: Record<string, string>;
  /** The address it listens on; default 127.0.0.1. */
  listen?: string;
  /** Default: one that is free. */
  port?: number;
  /** A directory that outlives this server; absent: a temporary one, removed with the server. */
  dataDir?: string;
  /** Another build than the one under test. */
  executable?: string;
  /** It serves HTTPS with `certificate`, which `authority` has signed: paths of PEM files. */
  tls?: { authority: { cert: string }; certificate: { cert: string; key: string } };
}

export type LogLine = Record<string, unknown> & { msg: string };

export interface Server extends AsyncDisposable {
  readonly url: string;
  /** "127.0.0.1:PORT": the registry part of image names. */
  readonly host: string;
  readonly port: number;
  readonly dataDir: string;
  readonly pid: number;
  /** Everything it logged so far, over restarts: as much as has come through the pipe. */
  log(): string;
  /** The lines of the log that have come whole. */
  lines(): LogLine[];
  /** Waits until so many lines of the log have it (default 1). */
  logged(pattern: RegExp, lines?: number): Promise<void>;
  /** Runs the client against this server. */
  svc(args: string[], options?: RunOptions): Promise<RunOutput>;
  /** SIGTERM and wait; SIGKILL where it takes too long. */
  stop(): Promise<Exit>;
  /** SIGKILL and wait: what a power cut does to it. */
  kill9(): Promise<Exit>;
  /** Starts it again on the same port and data (stops it first where it runs); waits until ready. */
  restart(): Promise<void>;
}

/** Sends the signal, unless it has ended. */
export function endProcess(child: Deno.ChildProcess, signal: Deno.Signal = "SIGTERM"): void {
  try {
    child.kill(signal);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error; // it has ended
  }
}

async function waitReady(
  url: string,
  { ended, client }: { ended: () => Exit | undefined; client?: Deno.HttpClient },
): Promise<void> {
  await eventually("it is ready", async () => {
    if (ended()) return true;
    const signal = AbortSignal.timeout(20_000);
    const answer = await fetch(`${url}/readyz`, { signal, client });
    await answer.body?.cancel();
    return answer.ok;
  }, 25);
  const exit = ended();
  if (exit) throw new Error(`the server ended with ${JSON.stringify(exit)} before it was ready`);
}

async function deleteDeployments(url: string): Promise<void> {
  const answer = await fetch(`${url}/.svc/v1/deployments`, {
    signal: AbortSignal.timeout(PATIENCE_MS),
  });
  if (!answer.ok) return void await answer.body?.cancel();
  const body = await answer.json() as { name: string }[] | { deployments: { name: string }[] };
  for (const { name } of Array.isArray(body) ? body : body.deployments ?? []) {
    const gone = await fetch(`${url}/.svc/v1/deployments/${name}?wait=true`, {
      method: "DELETE",
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
    await gone.body?.cancel();
  }
}

/**
 * Starts `svc serve` on a free port with the bare backend and a subnet of its own, and waits until it is
 * ready. Dispose of it to take away its workloads, its mounts and its temporary data.
 */
export async function startServer(options: ServerOptions = {}): Promise<Server> {
  const port = options.port ?? freePort();
  const dataDir = options.dataDir ?? await Deno.makeTempDir({ prefix: "svc-e2e-" });
  const { authority, certificate } = options.tls ?? {};
  const url = `${certificate ? "https" : "http"}://127.0.0.1:${port}`;
  const env = environment({
    SVC_DEPLOY_BACKEND: "bare",
    // A test that wants a daemon starts its own.
    DOCKER_HOST: "unix:///nowhere/docker.sock",
    SVC_CNI_SUBNET_BASE: freeSubnetBase(),
    // Whether this machine is itself a container is not what is tested.
    SVC_HOST_NETWORK: "1",
    ...options.env,
  });
  let log = "";
  let child: Deno.ChildProcess;
  let exited: Exit | undefined;
  let exit: Promise<Exit>;

  const collect = async (stream: ReadableStream<Uint8Array>) => {
    const decoder = new TextDecoder();
    for await (const chunk of stream) log += decoder.decode(chunk, { stream: true });
  };
  const start = async () => {
    exited = undefined;
    child = new Deno.Command(options.executable ?? EXECUTABLE, {
      args: [
        ...["serve", "--addr", `${options.listen ?? "127.0.0.1"}:${port}`, "--data-dir", dataDir],
        ...certificate ? ["--tls-cert", certificate.cert, "--tls-key", certificate.key] : [],
        ...options.args ?? [],
      ],
      clearEnv: true,
      env,
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    // A workload may hold the pipes open for longer than the server lives: nobody waits for their end.
    collect(child.stdout);
    collect(child.stderr);
    exit = child.status.then((s) => exited = { code: s.code, signal: s.signal });
    using client = authority &&
      Deno.createHttpClient({ caCerts: [await Deno.readTextFile(authority.cert)] });
    await waitReady(url, { ended: () => exited, client })
      .catch(async (error) => {
        const threads = await threadsOf(child.pid);
        endProcess(child, "SIGKILL");
        await exit;
        const found = `its log:\n${log}\nits threads:\n${threads}`;
        throw new Error(`${error.message}; ${found}`, { cause: error });
      });
  };
  const end = async (name: Deno.Signal) => {
    endProcess(child, name);
    const timer = setTimeout(() => endProcess(child, "SIGKILL"), PATIENCE_MS);
    const result = await exit;
    clearTimeout(timer);
    return result;
  };
  const remove = async () => {
    await (options.dataDir === undefined ? removeServerData : removeRunState)(dataDir);
    await removeBridges(env.SVC_CNI_SUBNET_BASE);
  };

  try {
    await start();
  } catch (error) {
    await remove();
    throw error;
  }
  return {
    url,
    host: `127.0.0.1:${port}`,
    port,
    dataDir,
    get pid() {
      return child.pid;
    },
    log: () => log,
    lines: () => {
      const whole = log.slice(0, log.lastIndexOf("\n") + 1).split("\n");
      return whole.filter((line) => line.startsWith("{")).map((line) => JSON.parse(line));
    },
    logged: async (pattern, lines = 1) => {
      const found = () => log.split("\n").filter((line) => pattern.test(line)).length;
      await eventually(`${lines} lines with ${pattern}`, () => found() >= lines)
        .catch((error) => Promise.reject(new Error(`${error.message}; its log:\n${log}`)));
    },
    svc: (args, run = {}) => svc(args, { ...run, env: { SVC_SERVER: url, ...run.env } }),
    stop: () => end("SIGTERM"),
    kill9: () => end("SIGKILL"),
    restart: async () => {
      await end("SIGTERM");
      await start();
    },
    [Symbol.asyncDispose]: async () => {
      // A wedged server must not keep its test from ending; what it leaves is removed below.
      if (!exited) await deleteDeployments(url).catch(() => {});
      await end("SIGTERM");
      await remove();
    },
  };
}

/**
 * Makes a busybox image and pushes it into the server with skopeo; `name` is "repository:tag". Gives the
 * complete name and the manifest's digest.
 */
export async function baseImage(
  server: Pick<Server, "host">,
  name: string,
  options: BaseImageOptions = {},
): Promise<{ name: string; digest: string }> {
  const layout = await Deno.makeTempDir({ prefix: "svc-e2e-base-" });
  try {
    const digest = await writeBaseLayout(layout, "base", options);
    await runTool("skopeo", [
      "--insecure-policy",
      "copy",
      "--quiet",
      "--dest-tls-verify=false",
      `oci:${layout}:base`,
      `docker://${server.host}/${name}`,
    ]);
    return { name: `${server.host}/${name}`, digest };
  } finally {
    await Deno.remove(layout, { recursive: true });
  }
}
