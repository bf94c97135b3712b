/** `GET /.svc/v1/deployments/{name}/exec`: a command's streams on a WebSocket (lib/api/exec.ts). */
import { SvcError } from "../../base/errors.ts";
import { toProblem } from "../../api/problem.ts";
import {
  decodeExecFrame,
  decodeExecQuery,
  encodeExecFrame,
  type ExecControl,
  type ExecQuery,
} from "../../api/exec.ts";
import type { ExecRequest, ExecSession } from "../../deploy/backend.ts";
import type { ManagementDeps } from "../deps.ts";
import { describeError } from "../error_response.ts";
import { Query } from "../query.ts";
import type { Context, Route } from "../route.ts";
import { unknownDeployment } from "./deployments.ts";
import { API_PREFIX } from "./health.ts";

const PARAMETERS = ["command", "env", "user", "workdir", "instance", "tty", "stdin"];

/** Bytes that may wait in the socket before the command's output is read on. */
const OUTPUT_WINDOW = 1 << 20;

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
  const { command, user, workingDir, instance, tty } = query;
  return { command, env, user, workingDir, instance, tty };
}

/** One session on an open socket. Every way out sends the outcome, if anyone still listens. */
class Session {
  readonly #socket: WebSocket;
  readonly #exec: ExecSession;
  readonly #closed = Promise.withResolvers<void>();
  readonly #stdin: WritableStreamDefaultWriter<Uint8Array>;
  #input: Promise<void> = Promise.resolve();

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
      else throw unreadable();
    } catch (error) {
      this.fail(error instanceof SvcError ? error : unreadable());
    }
  }

  #write(data: Uint8Array): void {
    this.#input = this.#input.then(() => this.#stdin.write(data)).catch(
      () => {/* it reads no more */},
    )
      .then(() => this.#control({ ack: data.length }));
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
  new SvcError("argument_invalid", "Cannot read exec frame: expected stdin or end of input");

export function execRoutes(deps: ManagementDeps): Route[] {
  async function exec(context: Context): Promise<Response> {
    const { request, url, params: { name }, connection } = context;
    new Query(url, PARAMETERS);
    const query = decodeExecQuery(url.searchParams);
    const wanted = execRequest(query);
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
    const session = await backend.caps.exec(name, wanted, {
      signal: AbortSignal.any([starting.signal, stopping]),
    });
    const { socket, response } = connection.upgrade(request);
    socket.binaryType = "arraybuffer";
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
      "0 stdin, 1 stdout, 2 stderr, 3 control (JSON: `eof` from the client; `exit`, `error` or " +
      `\`ack\` from the server). Query: \`${PARAMETERS.join(" ")}\`.`,
    handler: exec,
  }];
}
