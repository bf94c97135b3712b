/** `GET /.svc/v1/deployments/{name}/exec`: a command's streams on a WebSocket (lib/api/exec.ts). */
import { SvcError } from "../../base/errors.ts";
import { toProblem } from "../../api/problem.ts";
import {
  decodeExecFrame,
  decodeExecQuery,
  encodeExecFrame,
  type ExecControl,
  type ExecQuery,
  readTerminalSize,
} from "../../api/exec.ts";
import type { DeployBackend, ExecRequest, ExecSession } from "../../deploy/backend.ts";
import { shellCandidates } from "../../deploy/shells.ts";
import type { ManagementDeps } from "../deps.ts";
import { describeError } from "../error_response.ts";
import { Query } from "../query.ts";
import type { Context, Route } from "../route.ts";
import { unknownDeployment } from "./deployments.ts";
import { API_PREFIX } from "./health.ts";

const PARAMETERS = [
  ...["command", "env", "user", "workdir", "instance", "stdin"],
  ...["tty", "columns", "rows", "shell"],
];

/** Bytes that may wait in the socket before the command's output is read on. */
const OUTPUT_WINDOW = 1 << 20;
/** Bytes of input that a client may send without waiting for the command to take them. */
const INPUT_LIMIT = 8 << 20;

function execRequest(query: ExecQuery): ExecRequest {
  const env: Record<string, string> = {};
  for (const pair of query.env ?? []) {
    const equals = pair.indexOf("=");
    if (equals < 1) {
      throw new SvcError(
        "argument_invalid",
        `Cannot exec: env: expected KEY=VALUE, got ${JSON.stringify(pair)}`,
      );
    }
    env[pair.slice(0, equals)] = pair.slice(equals + 1);
  }
  const { command, user, workingDir, instance, tty, size } = query;
  return { command, env, user, workingDir, instance, tty, ...(size && { size }) };
}

/** The command, or the first shell that is there where none is named. */
async function open(
  backend: DeployBackend,
  name: string,
  query: ExecQuery,
  signal: AbortSignal,
): Promise<ExecSession> {
  const wanted = execRequest(query);
  const exec = backend.caps.exec!;
  if (wanted.command.length > 0) return await exec(name, wanted, { signal });
  const spec = (await backend.specs()).find((spec) => spec.name === name);
  const candidates = shellCandidates(spec?.shells, query.shells);
  for (const command of candidates) {
    const session = await exec(name, { ...wanted, command }, { signal });
    if (!session.refused) return session;
    await discard(session);
  }
  const tried = candidates.map(([program]) => program).join(", ");
  throw new SvcError("not_found", `Cannot open a shell in ${name}: it has none of ${tried}`, {
    help: "name a command that is there: svc exec -it NAME COMMAND",
  });
}

/** Nobody will read it. */
async function discard(session: ExecSession): Promise<void> {
  await Promise.allSettled([session.stdout.cancel(), session.stderr.cancel()]);
}

/** One session on an open socket. Every way out sends the outcome, if anyone still listens. */
class Session {
  readonly #socket: WebSocket;
  readonly #exec: ExecSession;
  readonly #closed = Promise.withResolvers<void>();
  readonly #stdin: WritableStreamDefaultWriter<Uint8Array>;
  #input: Promise<void> = Promise.resolve();
  #waiting = 0;

  constructor(socket: WebSocket, exec: ExecSession) {
    this.#socket = socket;
    this.#exec = exec;
    this.#stdin = exec.stdin.getWriter();
    // A command may end without reading its input; its exit code tells.
    this.#stdin.closed.catch(() => {});
    socket.onclose = () => this.#closed.resolve();
    socket.onmessage = (event) => this.#receive(event.data);
  }

  #receive(data: unknown): void {
    if (!(data instanceof ArrayBuffer)) return this.fail(unreadable());
    try {
      const frame = decodeExecFrame(new Uint8Array(data));
      if (frame.channel === "stdin") this.#write(frame.data);
      else if (frame.channel === "control" && "eof" in frame.control) this.closeStdin();
      else if (frame.channel === "control" && "resize" in frame.control && this.#exec.resize) {
        const { columns, rows } = frame.control.resize;
        this.#exec.resize(readTerminalSize(columns, rows));
      } else throw unreadable();
    } catch (error) {
      this.fail(error instanceof SvcError ? error : unreadable());
    }
  }

  #write(data: Uint8Array): void {
    this.#waiting += data.length;
    if (this.#waiting > INPUT_LIMIT) throw unacknowledged();
    this.#input = this.#input.then(() => this.#stdin.write(data))
      .catch(() => {/* it reads no more */})
      .then(() => {
        this.#waiting -= data.length;
        this.#control({ ack: data.length });
      });
  }

  closeStdin(): void {
    this.#input = this.#input.then(() => this.#stdin.close()).catch(() => {/* closed already */});
  }

  #control(control: ExecControl): void {
    if (this.#socket.readyState !== WebSocket.OPEN) return;
    this.#socket.send(encodeExecFrame({ channel: "control", control }));
  }

  async #pump(channel: "stdout" | "stderr"): Promise<void> {
    for await (const data of this.#exec[channel]) {
      if (this.#socket.readyState !== WebSocket.OPEN) continue;
      this.#socket.send(encodeExecFrame({ channel, data: new Uint8Array(data) }));
      while (
        this.#socket.bufferedAmount > OUTPUT_WINDOW && this.#socket.readyState === WebSocket.OPEN
      ) await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  /** Tells the client and ends the command. */
  fail(error: SvcError): void {
    this.#control({ error: toProblem(error) });
    this.#socket.close();
  }

  /** Resolves when the command has ended, whoever ended it. */
  async run(): Promise<void> {
    this.#control({ started: true });
    const ended = Promise.all([this.#pump("stdout"), this.#pump("stderr"), this.#exec.exit]);
    const gone = this.#closed.promise.then(() => this.#exec.kill("SIGKILL")).catch(() => {
      // It ended by itself in the meantime.
    });
    const [, , exit] = await ended;
    this.#control({ exit });
    this.#socket.close();
    await gone;
  }
}

const unreadable = () =>
  new SvcError(
    "argument_invalid",
    "Cannot read exec frame: expected stdin, its end, or the size of a terminal",
  );

const unacknowledged = () =>
  new SvcError(
    "too_large",
    `Cannot take more input: ${INPUT_LIMIT} bytes wait for the command already`,
    { help: "wait until the server acknowledges what was sent" },
  );

export function execRoutes(deps: ManagementDeps): Route[] {
  async function exec(context: Context): Promise<Response> {
    const { request, url, params: { name }, connection } = context;
    new Query(url, PARAMETERS);
    const query = decodeExecQuery(url.searchParams);
    execRequest(query);
    const backend = await deps.deploy.backend();
    if (!backend.caps.exec) {
      throw new SvcError("unsupported", `Cannot exec in ${name}: ${backend.name} cannot do it`);
    }
    if (!await backend.status(name)) throw unknownDeployment("exec in", name);
    if (request.headers.get("upgrade")?.toLowerCase() !== "websocket") {
      throw new SvcError(
        "argument_invalid",
        `Cannot exec in ${name}: the request is no WebSocket`,
        {
          help: "use `svc exec`, or a WebSocket client",
        },
      );
    }
    const { stopping } = deps.lifecycle;
    const starting = new AbortController();
    const signal = AbortSignal.any([starting.signal, stopping]);
    // No WebSocket client is shown the body of a refused upgrade: the reason travels on the socket.
    const session = await open(backend, name, query, signal)
      .catch((error) => describeError(error, context));
    let upgraded: ReturnType<typeof connection.upgrade>;
    try {
      upgraded = connection.upgrade(request);
    } catch (error) {
      starting.abort();
      if (!(session instanceof SvcError)) await discard(session);
      throw error;
    }
    const { socket, response } = upgraded;
    socket.binaryType = "arraybuffer";
    if (session instanceof SvcError) {
      socket.onopen = () => {
        const control = { error: toProblem(session) };
        socket.send(encodeExecFrame({ channel: "control", control }));
        socket.close();
      };
      return response;
    }
    const end = deps.lifecycle.begin();
    const live = new Session(socket, session);
    if (!query.stdin) live.closeStdin();
    const stop = () =>
      live.fail(new SvcError("unavailable", `Cannot exec in ${name}: the server is shutting down`));
    stopping.addEventListener("abort", stop, { once: true });
    const opened = Promise.withResolvers<void>();
    socket.onopen = () => opened.resolve();
    socket.onerror = () => opened.resolve();
    opened.promise.then(() => live.run())
      .catch((error) => live.fail(describeError(error, context)))
      .finally(() => {
        stopping.removeEventListener("abort", stop);
        starting.abort();
        end();
      });
    return response;
  }

  return [{
    method: "GET",
    path: `${API_PREFIX}/deployments/{name}/exec`,
    action: "exec",
    help:
      "WebSocket: runs a command in a running instance. Binary messages, the first byte the channel: " +
      "0 stdin, 1 stdout, 2 stderr, 3 control (JSON: `eof` and `resize` from the client; `started`, " +
      "`ack`, `exit` or `error` from the server). With `tty` and no `command` it is a shell: the first " +
      "there is of the workload's own, each `shell`, and the usual ones. " +
      `Query: \`${PARAMETERS.join(" ")}\`.`,
    handler: exec,
  }];
}
