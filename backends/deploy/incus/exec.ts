/** Commands beside an instance's main process. */
import { posix } from "node:path";
import { SvcError } from "../../../lib/base/errors.ts";
import { signalNumber } from "../../../lib/base/signals.ts";
import type { TerminalSize } from "../../../lib/base/terminal.ts";
import type { ExecRequest, ExecSession } from "../../../lib/deploy/backend.ts";
import type { ProbeResult } from "../../../lib/deploy/health.ts";
import { refusedExec } from "../../../lib/deploy/refused_exec.ts";
import type { IncusClient } from "../../../lib/incus/client.ts";
import type { IncusSocket } from "../../../lib/incus/socket.ts";
import type { Instance } from "../../../lib/incus/types.ts";
import { LONG_VARIABLES } from "./instance.ts";
import { lookupUser, type RuntimeUser } from "../../../lib/runtime/user.ts";

/** Bytes of passwd and group, at most. */
const MAX_ACCOUNTS = 4 * 1024 ** 2;
/** Bytes at the end of a probe's output that are kept. */
const PROBE_OUTPUT = 4096;

/** A file of an instance as text; "" where it is missing. */
async function readText(client: IncusClient, name: string, path: string): Promise<string> {
  try {
    const { headers, body } = await client.raw({
      path: `/instances/${name}/files`,
      query: { path },
      attempted: `Cannot read ${path} of ${name}`,
    });
    if (headers["x-incus-type"] !== "file") {
      await body.cancel();
      return "";
    }
    let text = "";
    const decoder = new TextDecoder();
    for await (const bytes of body) {
      text += decoder.decode(bytes, { stream: true });
      if (text.length > MAX_ACCOUNTS) return "";
    }
    return text;
  } catch (error) {
    if (error instanceof SvcError && error.code === "not_found") return "";
    throw error;
  }
}

/** Type and permissions of a file; undefined: it is missing. */
async function modeOf(
  { client, name, instance }: ExecPlace,
  path: string,
): Promise<{ type: string; mode: number } | undefined> {
  try {
    const { headers, body } = await client.raw({
      method: "HEAD",
      path: `/instances/${name}/files`,
      query: { path },
      attempted: `Cannot look for ${path} in ${instance}`,
    });
    await body.cancel();
    const [type, mode] = ["type", "mode"].map((key) => String(headers[`x-incus-${key}`] ?? ""));
    return { type, mode: parseInt(mode, 8) };
  } catch (error) {
    if (error instanceof SvcError && error.code === "not_found") return undefined;
    throw error;
  }
}

/** The exit code of a shell that cannot run the command; undefined: it can. */
export async function obstacle(
  place: ExecPlace,
  program: string,
  { cwd, path }: { cwd: string; path: string },
): Promise<number | undefined> {
  const candidates = program.includes("/")
    ? [posix.resolve(cwd, program)]
    : path.split(":").map((folder) => posix.resolve(cwd, folder || ".", program));
  let found = false;
  for (const candidate of candidates) {
    const file = await modeOf(place, candidate);
    if (!file) continue;
    found = true;
    if (file.type === "symlink" || file.type === "file" && file.mode & 0o111) return undefined;
  }
  return found ? 126 : 127;
}

/** The user of an image, a spec or an exec, by the instance's own files. */
export async function userIn(
  client: IncusClient,
  name: string,
  user: string,
): Promise<RuntimeUser> {
  const [passwd, group] = await Promise.all(
    ["/etc/passwd", "/etc/group"].map((path) => readText(client, name, path)),
  );
  return lookupUser(passwd, group, user);
}

export interface ExecPlace {
  client: IncusClient;
  /** The instance's name in Incus. */
  name: string;
  /** What people call it. */
  instance: string;
  /** The command is svc's own, or of a health check: its failure tells what stands in its way. */
  trusted?: true;
}

const sizeOf = ({ columns, rows }: TerminalSize) => ({ width: columns, height: rows });

/** What the command runs with: Incus knows the instance's environment, and numbers of users. Also its PATH. */
async function descriptionOf(
  { client, name, instance }: ExecPlace,
  { command, env = {}, user, workingDir, tty = false, size }: ExecRequest,
) {
  const { config } = await client.get<Instance>({
    path: `/instances/${name}`,
    attempted: `Cannot run a command in ${instance}`,
  });
  const found = user === undefined ? undefined : await userIn(client, name, user);
  const home = config["environment.HOME"] ?? found?.home;
  const environment = {
    ...(tty && config["environment.TERM"] === undefined && { TERM: "xterm" }),
    ...(home && { HOME: home }),
    ...JSON.parse(config[LONG_VARIABLES] ?? "{}"),
    ...env,
  };
  const path = env.PATH ?? config["environment.PATH"] ?? "";
  const json = {
    command,
    environment,
    interactive: tty,
    "wait-for-websocket": true,
    user: found?.uid ?? Number(config["oci.uid"] ?? 0),
    group: found?.gid ?? Number(config["oci.gid"] ?? 0),
    cwd: workingDir ?? config["oci.cwd"] ?? "/",
    ...(tty && sizeOf(size ?? { columns: 80, rows: 24 })),
  };
  return { json, path };
}

/** Incus takes the command for ended once each socket that has ended is closed. */
function readable(socket: IncusSocket): ReadableStream<Uint8Array> {
  return new ReadableStream({
    async pull(controller) {
      const bytes = await socket.read();
      if (bytes) return controller.enqueue(bytes);
      controller.close();
      socket.close();
    },
    async cancel() {
      // Nobody reads it: the command goes on.
      while (await socket.read());
      socket.close();
    },
  }, { highWaterMark: 0 });
}

/** The sockets of a command. On a terminal its input and output are one, and it has no errors. */
interface Sockets {
  control: IncusSocket;
  input: IncusSocket;
  output: IncusSocket;
  errors?: IncusSocket;
}

async function openSockets(
  tty: boolean,
  open: (fd: string) => Promise<IncusSocket>,
): Promise<Sockets> {
  const control = await open("control");
  const [input, output = input, errors] = await Promise.all(
    (tty ? ["0"] : ["0", "1", "2"]).map(open),
  );
  return { control, input, output, errors };
}

/** The session of a command that runs. An abort ends it. */
function sessionOf(
  { control, input, output, errors }: Sockets,
  code: Promise<number>,
  { tty, signal }: { tty: boolean; signal?: AbortSignal },
): ExecSession {
  const kill = async (text: string) => {
    const number = signalNumber(text);
    if (number === undefined) {
      throw new SvcError("argument_invalid", `Cannot send signal ${JSON.stringify(text)}: unknown`);
    }
    await control.send({ command: "signal", signal: number }).catch(() => {/* it has ended */});
  };
  const onAbort = () => void kill("KILL");
  signal?.addEventListener("abort", onAbort, { once: true });
  if (signal?.aborted) onAbort();
  const exit = code.finally(() => {
    signal?.removeEventListener("abort", onAbort);
    for (const socket of [control, ...(tty ? [] : [input])]) socket.close();
  });
  exit.catch(() => {/* told to who waits for it */});
  return {
    stdout: readable(output),
    stderr: errors ? readable(errors) : ReadableStream.from([]),
    stdin: new WritableStream({
      write: (bytes) => input.write(bytes).catch(() => {/* it has ended */}),
      // The end of a terminal's input is typed.
      close: () => tty ? undefined : input.end().catch(() => {/* it has ended */}),
      abort: () => undefined,
    }),
    exit,
    kill,
    ...(tty && {
      resize: (size: TerminalSize) => {
        const { width, height } = sizeOf(size);
        const args = { width: String(width), height: String(height) };
        control.send({ command: "window-resize", args }).catch(() => {/* it has ended */});
      },
    }),
  };
}

/** Throws `conflict` where the instance does not run. An abort ends the command. */
export async function execIn(
  place: ExecPlace,
  request: ExecRequest,
  signal?: AbortSignal,
): Promise<ExecSession> {
  const { client, name, instance } = place;
  const { command: [program], tty = false } = request;
  if (program === undefined) {
    throw new SvcError("argument_invalid", "Cannot run a command: none is given");
  }
  const attempted = `Cannot run ${program} in ${instance}`;
  const { json, path } = await descriptionOf(place, request);
  const code = place.trusted ? undefined : await obstacle(place, program, { cwd: json.cwd, path });
  if (code !== undefined) return refusedExec(program, code);
  const { id, metadata } = await client.begin({
    path: `/instances/${name}/exec`,
    json,
    attempted,
    signal,
  });
  const { fds } = metadata as { fds: Record<string, string> };
  const sockets = await openSockets(tty, (fd) => client.stream(id, fds[fd], attempted));
  const exit = client.wait(id, { attempted })
    .then(({ metadata }) => Number(metadata?.return), (error) => {
      if (/command not found/i.test(String(error))) return 127;
      if (/not executable/i.test(String(error))) return 126;
      throw error;
    });
  return sessionOf(sockets, exit, { tty, signal });
}

/** Runs a health check's command to its end; an abort kills it. */
export async function runProbe(
  place: ExecPlace,
  command: string[],
  signal: AbortSignal,
): Promise<ProbeResult> {
  const session = await execIn({ ...place, trusted: true }, { command }, signal);
  let output = "";
  const keep = async (stream: ReadableStream<Uint8Array>) => {
    const decoder = new TextDecoder();
    for await (const bytes of stream) {
      output = (output + decoder.decode(bytes, { stream: true })).slice(-PROBE_OUTPUT);
    }
  };
  const [code] = await Promise.all([
    session.exit,
    session.stdin.close().catch(() => {/* it does not read */}),
    keep(session.stdout),
    keep(session.stderr),
  ]);
  return { code, output };
}
