/** `GET /.svc/v1/session`: a deployment that ends with its caller (lib/api/session.ts). */
import { checkLogins } from "../../api/build_logins.ts";
import { APPLY_UNTIL } from "../../api/deployment.ts";
import { checkCallerMounts } from "../../api/caller_mounts.ts";
import { checkDeliveredFiles } from "../../api/delivered_files.ts";
import { endpoint } from "../../api/endpoints.ts";
import type { DeploySpec } from "../../api/deploy_spec.ts";
import { toProblem } from "../../api/problem.ts";
import { type SessionEnd, type SessionEvent, type SessionRequest } from "../../api/session.ts";
import { SvcError } from "../../base/errors.ts";
import type { Kind } from "../../wire/attached/kinds.ts";
import { type Attached, type Fields, isLost } from "../../wire/attached/session.ts";
import { LineReader, writeLine } from "../../wire/lines.ts";
import type { YamuxStream } from "../../wire/yamux/stream.ts";
import { acceptSpec, checkSpec, MAX_SPEC, parseSpecText } from "../accept_spec.ts";
import type { Access } from "../access.ts";
import { accept, greet } from "../attached/accept.ts";
import type { ManagementDeps } from "../deps.ts";
import { describeError } from "../error_response.ts";
import type { Context, Route } from "../route.ts";
import { checkCertificates } from "../ingress/certificates.ts";
import type { DeploySession, SessionLink } from "../sessions/session.ts";
import type { DeploySessions } from "../sessions/sessions.ts";

/** Milliseconds that a caller has to send its request, and to hang up after the end. */
const PATIENCE_MS = 30_000;

/** Events that may wait for a caller that does not read. */
const MAX_WAITING = 512;

type OpenRequest = Extract<SessionRequest, { type: "open" }>;

/** The first line: a spec in JSON, whose quotes and newlines may be escaped. */
const MAX_LINE = 2 * MAX_SPEC;

/** The connection of one caller. */
class Caller implements SessionLink {
  readonly #context: Context;
  readonly #access: Access;
  readonly #sessions: DeploySessions;
  readonly #attached: Attached;
  /** The stream `deploy`, once the caller has opened it. */
  readonly #stream: Promise<YamuxStream>;
  #sending: Promise<unknown>;
  #waiting = 0;
  /** Undefined until the caller has opened or resumed it. */
  #session: DeploySession | undefined;

  /** `resumed`: the session that the caller proved to be its own. */
  constructor(
    context: Context,
    { deps, sessions, resumed, attached, stream }: {
      deps: Pick<ManagementDeps, "access">;
      sessions: DeploySessions;
      resumed: DeploySession | undefined;
      attached: Attached;
      stream: Promise<YamuxStream>;
    },
  ) {
    this.#context = context;
    this.#access = deps.access;
    this.#sessions = sessions;
    this.#session = resumed;
    this.#attached = attached;
    const ended = attached.closed.then((reason) => {
      throw reason ?? new Error("it was closed");
    });
    this.#sending = this.#stream = Promise.race([stream, ended]);
    // The connection may be lost before anything waits for the stream.
    this.#sending.catch(() => {});
  }

  readonly describe = (error: unknown) => toProblem(describeError(error, this.#context));

  tell(event: SessionEvent): void {
    if (++this.#waiting > MAX_WAITING) return this.drop("the caller takes no events");
    this.#sending = this.#sending.then(async () => {
      await writeLine(await this.#stream, event);
      this.#waiting--;
    });
    this.#sending.catch(() => {/* the connection is lost, which its end tells */});
  }

  open(kind: Kind, fields?: Fields): YamuxStream {
    return this.#attached.open(kind, fields);
  }

  finish(): void {
    const late = setTimeout(() => this.drop("the caller does not hang up"), PATIENCE_MS);
    this.#sending.then(async () => await (await this.#stream).closeWrite())
      .catch(() => {/* the connection is lost already */});
    this.#attached.closed.then(() => clearTimeout(late));
  }

  drop(why: string): void {
    this.#attached.drop(why);
  }

  /** The server shuts down. A session that has begun closes the connection itself, when it is stopped. */
  stop(): void {
    if (!this.#session) this.drop("the server is shutting down");
  }

  /**
   * `token` of the session that the caller resumes; undefined for a new one. Resolves when the connection has
   * ended.
   */
  async run(token: string | undefined): Promise<void> {
    const late = setTimeout(() => this.drop("the caller asks for nothing"), PATIENCE_MS);
    if (token !== undefined) this.#session!.attach(this, token);
    try {
      const lines = new LineReader(await this.#stream, MAX_LINE);
      try {
        const first = await read(lines);
        clearTimeout(late);
        const request = checkRequest(first, this.#session !== undefined);
        const session = this.#session ??= await this.#open(request as OpenRequest);
        for (let line = await read(lines); line !== undefined; line = await read(lines)) {
          checkEnd(line);
          session.end();
        }
      } catch (error) {
        // The caller broke the protocol, or the connection is lost: in both cases the grace period begins.
        if (!isLost(error)) {
          this.tell({ type: "error", error: this.describe(error) });
          this.finish();
        }
        this.#session?.detach(this);
      }
      await this.#attached.closed;
    } catch {
      // The caller asked for nothing.
    } finally {
      clearTimeout(late);
      this.#session?.detach(this);
    }
  }

  async #open(request: OpenRequest): Promise<DeploySession> {
    const { identity, connection } = this.#context;
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
    const logins = checkLogins(request.logins);
    const mounts = checkCallerMounts(request.mounts);
    const files = checkDeliveredFiles(request.files);
    const { until } = request;
    return await this.#sessions.open(spec, holder, this, {
      ...{ certificates, logins, mounts, files, until },
    });
  }
}

function malformed(why: string): SvcError {
  return new SvcError("argument_invalid", `Cannot read the session's messages: ${why}`, {
    help: "use `svc deploy --session`",
  });
}

/** The next line's value; undefined at the end. Throws `argument_invalid`, or the error of a lost connection. */
async function read(lines: LineReader): Promise<unknown> {
  try {
    return await lines.line();
  } catch (error) {
    throw isLost(error) ? error : malformed((error as Error).message.split(": ").at(-1)!);
  }
}

/** Throws `argument_invalid`. `resumed`: the connection is a later one of a session that was opened before. */
function checkRequest(value: unknown, resumed: boolean): SessionRequest {
  const request = value as Partial<Record<string, unknown>> | null | undefined;
  const isText = (name: string, most: number) => {
    const text = request?.[name];
    return typeof text === "string" && text.length <= most;
  };
  if (typeof request !== "object" || request === null) throw malformed("no request came");
  const { type } = request;
  const complete = resumed ? type === "resume" : type === "open" && (
    isText("text", MAX_SPEC) && (request.source === undefined || isText("source", 4096)) ||
    request.text === undefined && request.spec !== undefined
  );
  const { until } = request;
  if (until !== undefined && !APPLY_UNTIL.some((one) => one === until)) {
    throw malformed(`expected until to be one of ${APPLY_UNTIL.join(", ")}`);
  }
  if (!complete) throw malformed(`expected a request of type ${resumed ? "resume" : "open"}`);
  return request as SessionRequest;
}

function checkEnd(value: unknown): asserts value is SessionEnd {
  if ((value as Partial<SessionEnd> | null)?.type === "end") return;
  throw malformed("expected a line of type end");
}

const PURPOSE = { attempt: "open a session", help: "use `svc deploy --session`" };

export function sessionRoutes(deps: ManagementDeps, sessions: DeploySessions): Route[] {
  async function session(context: Context): Promise<Response> {
    // A server that cannot deploy refuses by an ordinary answer.
    await deps.deploy.backend();
    const resume = greet(context, PURPOSE.attempt)?.resume;
    const resumed = resume && await sessions.find(resume, context.identity.subject);
    context.about = resume?.name;
    const stream = Promise.withResolvers<YamuxStream>();
    const begun: { caller?: Caller } = {};
    const { session: attached, response } = accept(context, deps.lifecycle, {
      ...PURPOSE,
      maxStreams: 1,
      takes: { deploy: stream.resolve },
      onStop: (attached) =>
        begun.caller ? begun.caller.stop() : attached.drop("the server is shutting down"),
    });
    const caller = begun.caller = new Caller(context, {
      ...{ deps, sessions, resumed, attached },
      stream: stream.promise,
    });
    void caller.run(resume?.token);
    return response;
  }

  return [{
    ...endpoint("GET /session"),
    action: "deploy",
    help:
      "Attached session: a deployment that lives as long as it. The caller opens the stream `deploy`, which has " +
      "the request and the events (NDJSON). The deployment is removed when the caller ends the session, or " +
      "does not resume it within the grace period after its connection was lost.",
    handler: session,
  }];
}
