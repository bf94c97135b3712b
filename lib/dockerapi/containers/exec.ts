/** Commands in running containers. */
import { parseDetachKeys } from "../../base/detach_keys.ts";
import { exec as runIn } from "../../client/exec.ts";
import type { Duplex } from "../../wire/duplex.ts";
import { type DockerApi, perApi } from "../api.ts";
import type { Bodies } from "../bodies.ts";
import { conflict, invalid, notFound, unsupported } from "../errors.ts";
import { messageOf } from "../call.ts";
import { newId } from "../ids.ts";
import type { Answer, Call } from "../request.ts";
import type { ApiRoute } from "../route.ts";
import type { ContainerRecord } from "./record.ts";
import { isUp, stateOf } from "./seen.ts";
import {
  DETACH_KEYS,
  framed,
  inputOf,
  RemoteTerminal,
  resizeBy,
  sizeOf,
  streamType,
} from "./streams.ts";

interface Exec {
  id: string;
  record: ContainerRecord;
  config: Bodies["ExecConfig"];
  terminal?: RemoteTerminal;
  running: boolean;
  started: boolean;
  exitCode: number | null;
}

/** Commands that ended are forgotten beyond this number. */
const KEPT = 500;

const all = perApi(() => new Map<string, Exec>());

function find(api: DockerApi, call: Call): Exec {
  const found = all(api).get(call.params.id);
  if (found) return found;
  throw notFound(`No such exec instance: ${call.params.id}`);
}

async function create(call: Call, api: DockerApi): Promise<Answer> {
  const config = await call.json("ExecConfig");
  const seen = await api.containers.find(call.params.id, call.signal);
  const { record } = seen;
  if (!isUp(seen.instance) || stateOf(seen) === "paused") {
    const how = stateOf(seen) === "paused"
      ? "paused, unpause the container before exec"
      : "not running";
    throw conflict(`container ${record.id} is ${how}`);
  }
  if (!config.Cmd?.length) throw invalid("No exec command specified");
  parseDetachKeys(config.DetachKeys ?? "");
  if (config.Privileged) {
    throw unsupported(
      "Cannot exec: --privileged cannot be honoured",
      "a command has the rights of its container",
    );
  }
  const id = newId();
  const execs = all(api);
  for (const [old, { running, started }] of execs) {
    if (execs.size < KEPT) break;
    if (started && !running) execs.delete(old);
  }
  const terminal = config.Tty ? new RemoteTerminal(sizeOf(config.ConsoleSize)) : undefined;
  execs.set(id, {
    ...{ id, record, config, running: false, started: false, exitCode: null },
    ...terminal && { terminal },
  });
  api.containers.life.tell(record, `exec_create: ${config.Cmd.join(" ")}`, { execID: id });
  return { status: 201, json: { Id: id } };
}

/** Runs to the end; `connection` absent: nobody sees the output. */
async function run(
  api: DockerApi,
  exec: Exec,
  signal: AbortSignal,
  way?: { take(): Promise<Duplex>; upgrade?: string },
): Promise<void> {
  const { record, config, terminal } = exec;
  const tty = config.Tty === true;
  const left = new AbortController();
  const both = AbortSignal.any([signal, left.signal]);
  let connection: Duplex | undefined;
  // The input is the connection's, which is taken once the server has the command.
  const opened = Promise.withResolvers<Duplex>();
  opened.promise.catch(() => {/* told by the call */});
  const keys = tty ? config.DetachKeys || DETACH_KEYS : undefined;
  const input = way && config.AttachStdin
    ? inputOf({ read: async () => await (await opened.promise).read() }, keys, () => left.abort())
    : undefined;
  exec.running = true;
  api.containers.life.tell(record, `exec_start: ${config.Cmd!.join(" ")}`, { execID: exec.id });
  try {
    exec.exitCode = await runIn(api.client(both), record.deployment, {
      command: config.Cmd!,
      ...{ tty, env: config.Env ?? [], instance: record.instance },
      ...config.User && { user: config.User },
      ...config.WorkingDir && { workingDir: config.WorkingDir },
    }, {
      signal: both,
      ...input && { stdin: input },
      ...terminal && { terminal },
      onStart: async () => {
        connection = await way?.take();
        if (connection) opened.resolve(connection);
      },
      onOutput: async (stream, data) => {
        const wanted = stream === "stdout" ? config.AttachStdout : config.AttachStderr;
        if (wanted || tty) await connection?.write(tty ? data : framed(stream, data));
      },
    });
  } catch (error) {
    opened.reject(error);
    exec.exitCode ??= both.aborted ? 137 : 126;
    if (both.aborted && connection) return;
    if (connection || !way?.upgrade) throw error;
    // Clients that asked for an upgrade would show the answer's status alone, and not its message.
    connection = await way.take();
    const said = new TextEncoder().encode(`${messageOf(error).message}\r\n`);
    await connection.write(tty ? said : framed("stderr", said));
  } finally {
    exec.running = false;
    await connection?.closeWrite().catch(() => {});
    api.containers.life.tell(record, "exec_die", {
      execID: exec.id,
      exitCode: String(exec.exitCode),
    });
  }
}

async function start(call: Call, api: DockerApi): Promise<Answer | void> {
  const exec = find(api, call);
  const body = await call.json("ExecStart");
  if (exec.started) {
    throw conflict(`exec command ${exec.id} has already run`);
  }
  exec.started = true;
  const size = sizeOf(body.ConsoleSize);
  if (size) exec.terminal?.resize(size);
  if (body.Detach) {
    run(api, exec, api.signal).catch((error) => api.warn(`exec: ${(error as Error).message}`));
    return {};
  }
  const type = streamType(call, exec.config.Tty === true);
  await run(api, exec, call.signal, {
    upgrade: call.upgrade,
    take: () => call.take({ type }),
  });
}

function inspect(call: Call, api: DockerApi): Promise<Answer> {
  const { id, record, config, running, exitCode } = find(api, call);
  const [entrypoint = "", ...args] = config.Cmd ?? [];
  return Promise.resolve({
    json: {
      ID: id,
      Running: running,
      ExitCode: exitCode,
      ProcessConfig: {
        ...{ tty: config.Tty ?? false, entrypoint, arguments: args, privileged: false },
        ...config.User && { user: config.User },
      },
      OpenStdin: config.AttachStdin ?? false,
      OpenStderr: config.AttachStderr ?? false,
      OpenStdout: config.AttachStdout ?? false,
      CanRemove: false,
      ContainerID: record.id,
      DetachKeys: "",
      Pid: 0,
    },
  });
}

function resize(call: Call, api: DockerApi): Promise<Answer> {
  resizeBy(call, find(api, call).terminal);
  return Promise.resolve({});
}

export const EXEC_ROUTES: readonly ApiRoute[] = [
  { method: "POST", path: "/containers/{id}/exec", handler: create },
  { method: "POST", path: "/exec/{id}/start", handler: start },
  { method: "POST", path: "/exec/{id}/resize", handler: resize },
  { method: "GET", path: "/exec/{id}/json", handler: inspect },
];
