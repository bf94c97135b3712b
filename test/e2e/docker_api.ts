/** `svc daemon docker` beside a server, and docker's own clients on its socket. */
import assert from "node:assert/strict";
import { dirname, join } from "node:path";
import { programsIn } from "../peers/namespace.ts";
import { PATIENCE_MS } from "../waits.ts";
import { EXECUTABLE, type RunOutput, type Server } from "./harness.ts";

const CLIENTS = programsIn("docker-clients-1");

/** For `files` of a test's needs: there once `docker_clients.sh` has run. */
export const CLIENTS_READY = join(CLIENTS, "ready");

/** Clients by name: Debian's own docker (20.10), docker 28, and docker compose 2. */
export const PROGRAMS = {
  docker20: "/usr/bin/docker",
  docker28: join(CLIENTS, "usr/bin/docker"),
  compose: join(CLIENTS, "usr/bin/docker-compose"),
} as const;

export type Program = keyof typeof PROGRAMS;

/** docker 28 builds with it where its folder of plugins has it. */
export const BUILDX = join(CLIENTS, "usr/libexec/docker/cli-plugins/docker-buildx");

/** Has docker 28 and docker compose build with buildx. */
export async function addBuildx(api: Pick<DockerSocket, "path">): Promise<void> {
  const plugins = join(dirname(api.path), "config/cli-plugins");
  await Deno.mkdir(plugins, { recursive: true });
  await Deno.symlink(BUILDX, join(plugins, "docker-buildx"));
}

export interface DockerRunOptions {
  stdin?: string;
  cwd?: string;
  env?: Record<string, string>;
}

export interface DockerSocket extends AsyncDisposable {
  readonly path: string;
  /** The daemon's environment; tests may start it again. */
  run(program: Program, args: string[], options?: DockerRunOptions): Promise<RunOutput>;
  /** Standard output of a command that has to succeed. */
  ok(program: Program, args: string[], options?: DockerRunOptions): Promise<string>;
  /** What the daemon has printed so far. */
  log(): string;
}

async function text(stream: ReadableStream<Uint8Array>): Promise<string> {
  return await new Response(stream).text();
}

async function runProgram(
  folder: string,
  program: Program,
  args: string[],
  { stdin, cwd, env }: DockerRunOptions,
): Promise<RunOutput> {
  const child = new Deno.Command(PROGRAMS[program], {
    args,
    ...cwd !== undefined && { cwd },
    env: {
      DOCKER_HOST: `unix://${join(folder, "docker.sock")}`,
      DOCKER_CONFIG: join(folder, "config"),
      // Go's clients print no progress that moves.
      TERM: "dumb",
      ...env,
    },
    stdin: stdin === undefined ? "null" : "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  // One that hangs fails its test.
  const timer = setTimeout(() => child.kill("SIGKILL"), PATIENCE_MS);
  if (stdin !== undefined) {
    const writer = child.stdin.getWriter();
    await writer.write(new TextEncoder().encode(stdin));
    await writer.close();
  }
  const [stdout, stderr, { code }] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    child.status,
  ]);
  clearTimeout(timer);
  return { code, stdout, stderr };
}

/** Starts `svc daemon docker` for the server, and waits until it listens. Disposing ends it. */
export async function startDockerApi(
  server: Pick<Server, "url">,
  env: Record<string, string> = {},
): Promise<DockerSocket> {
  const folder = await Deno.makeTempDir({ prefix: "svc-docker-api-" });
  const path = join(folder, "docker.sock");
  const child = new Deno.Command(EXECUTABLE, {
    args: ["daemon", "docker"],
    env: {
      SVC_SERVER: server.url,
      SVC_CONFIG: "/nonexistent/svc-test-config.yaml",
      SVC_DOCKER_SOCK: path,
      XDG_STATE_HOME: join(folder, "state"),
      ...env,
    },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  let log = "";
  const listening = Promise.withResolvers<void>();
  const collect = async (stream: ReadableStream<Uint8Array>) => {
    for await (const part of stream.pipeThrough(new TextDecoderStream())) {
      log += part;
      if (log.includes("Docker API on")) listening.resolve();
    }
  };
  const read = Promise.all([child.stdout, child.stderr].map(collect));
  child.status.then(({ code }) =>
    listening.reject(new Error(`svc daemon docker ended with ${code}: ${log}`))
  );
  const end = async () => {
    try {
      child.kill("SIGTERM");
    } catch {
      // It has ended.
    }
    await child.status;
    await read;
    await Deno.remove(folder, { recursive: true });
  };
  try {
    await listening.promise;
  } catch (error) {
    await end();
    throw error;
  }
  const run: DockerSocket["run"] = (program, args, options = {}) =>
    runProgram(folder, program, args, options);
  return {
    path,
    run,
    async ok(program, args, options) {
      const { code, stdout, stderr } = await run(program, args, options);
      assert.equal(code, 0, `${program} ${args.join(" ")}: ${stderr}\n${log}`);
      return stdout;
    },
    log: () => log,
    [Symbol.asyncDispose]: end,
  };
}
