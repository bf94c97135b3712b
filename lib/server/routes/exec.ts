/** `GET /.svc/v1/deployments/{name}/exec`: a command and its streams (lib/api/exec.ts). */
import { endpoint } from "../../api/endpoints.ts";
import { SvcError } from "../../base/errors.ts";
import {
  decodeExecQuery,
  type ExecEnd,
  type ExecInput,
  type ExecQuery,
  readTerminalSize,
} from "../../api/exec.ts";
import type { DeployBackend, ExecRequest, ExecSession } from "../../deploy/backend.ts";
import { shellCandidates } from "../../deploy/shells.ts";
import type { Attached } from "../../wire/attached/session.ts";
import { LineReader, writeLine } from "../../wire/lines.ts";
import type { YamuxStream } from "../../wire/yamux/stream.ts";
import { accept } from "../attached/accept.ts";
import type { ManagementDeps } from "../deps.ts";
import { describeError } from "../error_response.ts";
import type { Context, Route } from "../route.ts";
import { unknownDeployment } from "./deployments.ts";

/** Bytes of a line with a terminal's size, at most. */
const MAX_LINE = 1024;

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

/** Starts the command, or the first shell that exists where no command is named. */
async function open(
  backend: DeployBackend,
  name: string,
  query: ExecQuery,
  signal: AbortSignal,
): Promise<ExecSession> {
  const wanted = execRequest(query);
  const exec = backend.caps.exec!;
  if (wanted.command.length > 0) return await exec(name, wanted, { signal });
  const spec = await backend.spec(name);
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

/** Cancels output that nobody will read. */
async function discard(session: ExecSession): Promise<void> {
  await Promise.allSettled([session.stdout.cancel(), session.stderr.cancel()]);
}

/** Passes on standard input to its end. Input that an ended command does not take is dropped. */
async function feed(from: YamuxStream, to: WritableStreamDefaultWriter<Uint8Array>): Promise<void> {
  for (let data = await from.read(); data; data = await from.read()) {
    await to.write(data).catch(() => {/* its exit code tells */});
  }
  await to.close().catch(() => {/* closed already */});
}

/** Passes on output to its end. A command whose client has gone is not held up. */
async function drain(from: ReadableStream<Uint8Array>, to: YamuxStream): Promise<void> {
  for await (const data of from) await to.write(data).catch(() => {/* the client has gone */});
  await to.closeWrite().catch(() => {/* the client has gone */});
}

/** Throws `argument_invalid` for a malformed size, or where there is no terminal. */
async function resize(from: YamuxStream, exec: ExecSession): Promise<void> {
  const lines = new LineReader(from, MAX_LINE);
  for (let line = await lines.line<ExecInput>(); line; line = await lines.line<ExecInput>()) {
    if (!exec.resize) throw unreadable();
    const { columns, rows } = Object(Object(line).resize);
    exec.resize(readTerminalSize(columns, rows));
  }
}

/** Resolves when the command has ended and the session is closed. */
async function serve(session: Attached, exec: ExecSession, stdin: boolean): Promise<void> {
  void session.closed.then(() => exec.kill("SIGKILL")).catch(() => {/* it ended by itself */});
  const [command, stdio, stderr] = (["command", "stdio", "stderr"] as const)
    .map((kind) => session.open(kind));
  const input = exec.stdin.getWriter();
  // A command may end without reading its input; its exit code tells.
  input.closed.catch(() => {});
  const fed = stdin ? feed(stdio, input) : input.close();
  fed.catch(() => {/* the session has ended */});
  resize(command, exec).catch((error) =>
    session.fail(
      error instanceof SvcError && error.code === "argument_invalid" ? error : unreadable(),
    )
  );
  const [, , exit] = await Promise.all([
    drain(exec.stdout, stdio),
    drain(exec.stderr, stderr),
    exec.exit,
  ]);
  await writeLine(command, { exit } satisfies ExecEnd);
  await session.close();
}

const unreadable = () =>
  new SvcError("argument_invalid", "Cannot exec: the command has no terminal to resize");

export function execRoutes(deps: ManagementDeps): Route[] {
  async function exec(context: Context): Promise<Response> {
    const { url, params: { name } } = context;
    const query = decodeExecQuery(url.searchParams);
    execRequest(query);
    const backend = await deps.deploy.backend();
    if (!backend.caps.exec) {
      throw new SvcError("unsupported", `Cannot exec in ${name}: ${backend.name} cannot do it`);
    }
    if (!await backend.status(name)) throw unknownDeployment("exec in", name);
    const stopped = new SvcError(
      "unavailable",
      `Cannot exec in ${name}: the server is shutting down`,
    );
    const { session, response } = accept(context, deps.lifecycle, {
      attempt: `exec in ${name}`,
      help: "use `svc exec`",
      onStop: (session) => session.fail(stopped),
    });
    const gone = new AbortController();
    void session.closed.then((reason) => gone.abort(reason));
    // WebSocket clients cannot read the body of a refused upgrade: the reason is sent as the session's error.
    open(backend, name, query, gone.signal)
      .then((command) => serve(session, command, query.stdin === true))
      .catch((error) => session.fail(describeError(error, context)))
      .finally(deps.lifecycle.begin());
    return response;
  }

  return [{
    ...endpoint("GET /deployments/{name}/exec"),
    action: "exec",
    help:
      "Attached session: runs a command in a running instance. The server opens the streams `stdio`, " +
      "`stderr` and `command` (sizes of the terminal from the client, the exit code from the server). With " +
      "`tty` and no `command` it is a shell: the first there is of the workload's own, each `shell`, and the " +
      "usual ones.",
    handler: exec,
  }];
}
