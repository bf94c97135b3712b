/** `GET /.svc/v1/session`: a deployment that ends with its caller (lib/api/session.ts). */
import type { DeploySpec } from "../../api/deploy_spec.ts";
import { toProblem } from "../../api/problem.ts";
import {
  SESSION_PATH,
  SESSION_VERSION,
  type SessionEnd,
  type SessionEvent,
  type SessionRequest,
} from "../../api/session.ts";
import { SvcError } from "../../base/errors.ts";
import { LineReader, writeLine } from "../../wire/lines.ts";
import { socketLink } from "../../wire/socket_link.ts";
import { isLost, YamuxSession } from "../../wire/yamux/session.ts";
import type { YamuxStream } from "../../wire/yamux/stream.ts";
import { acceptSpec, checkSpec, MAX_SPEC, parseSpecText } from "../accept_spec.ts";
import type { Access } from "../access.ts";
import type { ManagementDeps } from "../deps.ts";
import { describeError } from "../error_response.ts";
import type { Context, Route } from "../route.ts";
import { checkCertificates } from "../ingress/certificates.ts";
import type { DeploySession, SessionLink } from "../sessions/session.ts";
import type { DeploySessions } from "../sessions/sessions.ts";
import { API_PREFIX } from "./health.ts";

/** How long a caller may take to say what it wants, and to hang up after the end. */
const PATIENCE_MS = 30_000;

/** Events that may wait for a caller who does not take them. */
const MAX_WAITING = 512;

/** The first line: a spec in JSON, whose quotes and newlines may be escaped. */
const MAX_LINE = 2 * MAX_SPEC;

/** One caller's connection. */
class Caller implements SessionLink {
  readonly #context: Context;
  readonly #access: Access;
  readonly #sessions: DeploySessions;
  readonly #yamux: YamuxSession;
  readonly #control = Promise.withResolvers<YamuxStream>();
  #stream: YamuxStream | undefined;
  #sending: Promise<void> = Promise.resolve();
  #waiting = 0;
  #session: DeploySession | undefined;

  constructor(
    context: Context,
    { access }: Pick<ManagementDeps, "access">,
    sessions: DeploySessions,
    socket: WebSocket,
  ) {
    this.#context = context;
    this.#access = access;
    this.#sessions = sessions;
    this.#yamux = new YamuxSession(socketLink(socket), {
      role: "server",
      maxStreams: 1,
      onStream: (stream) => this.#control.resolve(stream),
    });
    // It may be gone before anyone waits.
    this.#control.promise.catch(() => {});
    socket.onmessage = ({ data }) => {
      if (data instanceof ArrayBuffer) this.#yamux.receive(new Uint8Array(data));
      else this.drop("a message is not binary");
    };
    socket.onclose = () => this.drop("the connection was lost");
    this.#yamux.closed.then((reason) => this.#control.reject(reason ?? new Error("it was closed")));
  }

  readonly describe = (error: unknown) => toProblem(describeError(error, this.#context));

  tell(event: SessionEvent): void {
    if (++this.#waiting > MAX_WAITING) return this.drop("the caller takes no events");
    this.#sending = this.#sending.then(() => writeLine(this.#stream!, event)).then(
      () => void this.#waiting--,
      () => {/* the connection is gone, which its end tells */},
    );
  }

  finish(): void {
    const late = setTimeout(() => this.drop("the caller does not hang up"), PATIENCE_MS);
    this.#sending.then(() => this.#stream?.closeWrite()).catch(() => {/* gone already */});
    this.#yamux.closed.then(() => clearTimeout(late));
  }

  drop(why: string): void {
    this.#yamux.lost(why);
  }

  /** Resolves when the connection has ended. `stopping`: the server goes, and waits for no caller. */
  async run(stopping: AbortSignal): Promise<void> {
    const late = setTimeout(() => this.drop("the caller asks for nothing"), PATIENCE_MS);
    // A session that has begun lets go of its caller itself.
    const stop = () => this.#session ?? this.drop("the server is shutting down");
    stopping.addEventListener("abort", stop, { once: true });
    try {
      const stream = this.#stream = await this.#control.promise;
      const lines = new LineReader(stream, MAX_LINE);
      try {
        const first = await read(lines);
        clearTimeout(late);
        const session = this.#session = await this.#begin(first);
        for (let line = await read(lines); line !== undefined; line = await read(lines)) {
          checkEnd(line);
          session.end();
        }
      } catch (error) {
        // What it said was wrong, or it is gone; a session that had begun is then as good as lost.
        if (!isLost(error)) {
          this.tell({ type: "error", error: this.describe(error) });
          this.finish();
        }
        this.#session?.detach(this);
      }
      await this.#yamux.closed;
    } catch {
      // It never asked for anything.
    } finally {
      clearTimeout(late);
      stopping.removeEventListener("abort", stop);
      this.#yamux[Symbol.dispose]();
      this.#session?.detach(this);
    }
  }

  async #begin(value: unknown): Promise<DeploySession> {
    const request = checkRequest(value);
    const { identity, connection } = this.#context;
    if (request.type === "resume") {
      this.#context.about = request.name;
      return await this.#sessions.resume(request.name, request.token, this);
    }
    const spec: DeploySpec = acceptSpec(
      await ("text" in request
        ? parseSpecText(request.text, request.source)
        : checkSpec(request.spec)),
      identity,
    );
    this.#context.about = spec.name;
    const from = connection.remote.slice(0, connection.remote.lastIndexOf(":"));
    const certificates = "text" in request || request.certificates === undefined
      ? undefined
      : await checkCertificates(request.certificates, spec);
    const mayPull = this.#access.allows(identity, "pull");
    const holder = { subject: identity.subject, from, ...(!mayPull && { mayPull }) };
    return await this.#sessions.open(spec, holder, this, certificates);
  }
}

function malformed(why: string): SvcError {
  return new SvcError("argument_invalid", `Cannot read the session's messages: ${why}`, {
    help: "use `svc deploy --session`",
  });
}

/** The next line's value; undefined at the end. Throws `argument_invalid`, or what {@linkcode isLost} knows. */
async function read(lines: LineReader): Promise<unknown> {
  try {
    return await lines.line();
  } catch (error) {
    throw isLost(error) ? error : malformed((error as Error).message.split(": ").at(-1)!);
  }
}

function checkRequest(value: unknown): SessionRequest {
  const request = value as Partial<Record<string, unknown>> | null | undefined;
  const isText = (name: string, most: number) => {
    const text = request?.[name];
    return typeof text === "string" && text.length <= most;
  };
  if (typeof request !== "object" || request === null) throw malformed("no request came");
  const { type, version } = request;
  if (typeof version === "number" && version !== SESSION_VERSION) {
    throw new SvcError(
      "unsupported",
      `Cannot open a session: the client speaks version ${version}, the server ${SESSION_VERSION}`,
      { help: "use a client of the server's own version" },
    );
  }
  const complete = version === SESSION_VERSION && (
    type === "resume" && isText("name", 256) && isText("token", 256) ||
    type === "open" && isText("text", MAX_SPEC) &&
      (request.source === undefined || isText("source", 4096)) ||
    type === "open" && request.text === undefined && request.spec !== undefined
  );
  if (!complete) throw malformed("expected a request of type open or resume");
  return request as SessionRequest;
}

function checkEnd(value: unknown): asserts value is SessionEnd {
  if ((value as Partial<SessionEnd> | null)?.type === "end") return;
  throw malformed("expected a line of type end");
}

export function sessionRoutes(deps: ManagementDeps, sessions: DeploySessions): Route[] {
  async function session(context: Context): Promise<Response> {
    // What cannot deploy says so before the upgrade hides it.
    await deps.deploy.backend();
    if (context.request.headers.get("upgrade")?.toLowerCase() !== "websocket") {
      throw new SvcError(
        "argument_invalid",
        "Cannot open a session: the request is no WebSocket",
        { help: "use `svc deploy --session`" },
      );
    }
    const { socket, response } = context.connection.upgrade(context.request);
    socket.binaryType = "arraybuffer";
    const end = deps.lifecycle.begin();
    new Caller(context, deps, sessions, socket).run(deps.lifecycle.stopping).finally(end);
    return response;
  }

  return [{
    method: "GET",
    path: `${API_PREFIX}${SESSION_PATH}`,
    action: "deploy",
    help:
      "WebSocket: a deployment that lives as long as its session. yamux inside; stream 1 has the " +
      "request and the events (NDJSON). The deployment is removed when the caller ends the session, or " +
      "does not resume it within the grace period after its connection was lost.",
    handler: session,
  }];
}
