/** `GET /.svc/v1/build/attach`: a build whose inputs stay with the caller (lib/api/build_session.ts). */
import { endpoint } from "../../api/endpoints.ts";
import type { BuildEvent } from "../../api/build.ts";
import { type AttachRequest, CONTEXT_EXPORT, namedExport } from "../../api/build_session.ts";
import {
  checkLogins,
  LOGINS_HEADER,
  readLogins,
  readRegistry,
  REGISTRY_HEADER,
} from "../../api/build_logins.ts";
import { toProblem } from "../../api/problem.ts";
import { SvcError } from "../../base/errors.ts";
import type { Semaphore } from "../../base/mutex.ts";
import type { Builder, BuildRequest } from "../../build/builder.ts";
import { Caller, checkRequest } from "../../build/session/caller.ts";
import { contextTooLarge } from "../../build/context/too_large.ts";
import type { NamedContext } from "../../build/inputs.ts";
import { LineReader, LineWriter, writeLine } from "../../wire/lines.ts";
import type { Attached } from "../../wire/attached/session.ts";
import type { YamuxStream } from "../../wire/yamux/stream.ts";
import { accept } from "../attached/accept.ts";
import { buildCaller, buildRequest } from "../build_request.ts";
import type { ManagementDeps } from "../deps.ts";
import { describeError } from "../error_response.ts";
import type { Context, Route } from "../route.ts";

/** Milliseconds that a caller has to send its request, and to hang up after the end. */
const PATIENCE_MS = 30_000;

/** Bytes of the request's line: a Dockerfile of 4 MiB and rules of 1 MiB with JSON's escapes. */
const MAX_REQUEST = 16 << 20;

function namedContexts(
  { contexts = {} }: AttachRequest,
  caller: Caller,
  builder: Builder,
  lazy: boolean,
): Record<string, NamedContext> {
  const kept = builder.contexts;
  return Object.fromEntries(
    Object.entries(contexts).map(([name, folder]): [string, NamedContext] => {
      if (!kept) {
        throw new SvcError(
          "unsupported",
          `Cannot use build context ${name}: this builder keeps none`,
        );
      }
      const tree = caller.tree(namedExport(name), { ...folder, lazy: lazy || folder.lazy });
      return [name, { kind: "tree", open: (signal) => kept.use(tree, { signal }) }];
    }),
  );
}

/** The engine's request, from the query and the inputs that are read from the caller. */
function requestOf(
  attach: AttachRequest,
  caller: Caller,
  builder: Builder,
  { lazy, headers }: { lazy: boolean; headers: Headers },
): BuildRequest {
  const given = buildRequest(new URL(`svc:/?${attach.query}`));
  const { context } = attach;
  const relayed = readLogins(headers.get(LOGINS_HEADER));
  const logins = new Map([...relayed ?? [], ...checkLogins(attach.logins) ?? []]);
  const registry = readRegistry(headers.get(REGISTRY_HEADER));
  return {
    ...given,
    ...(logins.size > 0 && { logins }),
    ...(registry !== undefined && { registry }),
    context: context.kind === "tar" ? caller.archive() : {
      tree: caller.tree(CONTEXT_EXPORT, context),
      dockerfile: context.dockerfile,
      ignore: context.ignore,
      received: caller.received,
    },
    secrets: caller.secrets(attach.secrets),
    ssh: caller.agents(attach.ssh),
    contexts: { ...given.contexts, ...namedContexts(attach, caller, builder, lazy) },
  };
}

/** The build of one session. */
class AttachedBuild {
  readonly #context: Context;
  readonly #deps: ManagementDeps;
  readonly #slots: Semaphore;
  readonly #session: Attached;
  /** The stream `build`, once the caller has opened it. */
  readonly #control: Promise<YamuxStream>;
  readonly #gone = new AbortController();

  constructor(
    context: Context,
    { deps, slots, session, control }: {
      deps: ManagementDeps;
      slots: Semaphore;
      session: Attached;
      control: Promise<YamuxStream>;
    },
  ) {
    this.#context = context;
    this.#deps = deps;
    this.#slots = slots;
    this.#session = session;
    this.#control = Promise.race([
      control,
      session.closed.then(() => {
        this.#gone.abort(
          new SvcError("cancelled", "Cannot go on building: the caller went away"),
        );
        throw this.#gone.signal.reason;
      }),
    ]);
    this.#control.catch(() => {/* the session may end before anyone waits */});
  }

  async run(): Promise<void> {
    const drop = (why: string) => this.#session.drop(why);
    const late = setTimeout(() => drop("the caller asks for nothing"), PATIENCE_MS);
    let caller: Caller | undefined;
    try {
      const control = await this.#control;
      const lines = new LineReader(control, MAX_REQUEST);
      const value = await lines.line();
      clearTimeout(late);
      // The caller sends nothing more on this stream: when it ends the stream, it wants no more.
      const over = () => drop("the caller ended its stream");
      lines.read().then(over, over);
      caller = this.#caller();
      const last = await this.#build(value, caller, control);
      await writeLine(control, last);
      await control.closeWrite();
      // The caller hangs up when it has read the end.
      const timer = setTimeout(() => drop("the caller does not hang up"), PATIENCE_MS);
      await this.#session.closed;
      clearTimeout(timer);
    } catch (error) {
      // The session broke: the caller cannot be told anything.
      if (!this.#gone.signal.aborted) this.#context.log.debug("attached build ended", { error });
    } finally {
      clearTimeout(late);
      caller?.close();
      this.#session[Symbol.dispose]();
    }
  }

  #caller(): Caller {
    const limit = this.#deps.limits.maxBuildContextBytes;
    return new Caller({
      open: (kind, fields) => this.#session.open(kind, fields),
      takes: (kind) => this.#session.takes(kind),
      subject: this.#context.identity.subject,
      limit,
      tooLarge: contextTooLarge,
    });
  }

  /** The build's last event. Throws only where the session has ended. */
  async #build(value: unknown, caller: Caller, control: YamuxStream): Promise<BuildEvent> {
    const events = new LineWriter(control);
    const onEvent = (event: BuildEvent) => events.send(event);
    /** Resolves when all events are sent; a caller that takes none is dropped. */
    const told = async () => {
      let before = events.sent;
      const timer = setInterval(() => {
        if (events.sent === before) this.#session.drop("the caller takes no events");
        before = events.sent;
      }, PATIENCE_MS);
      await events.flush().finally(() => clearInterval(timer));
    };
    const { signal } = this.#gone;
    try {
      const attach = checkRequest(value);
      this.#context.about = new URLSearchParams(attach.query).getAll("t").join(" ") || undefined;
      const result = await this.#slots.run(
        async () => {
          const builder = await this.#deps.builder();
          const request = requestOf(attach, caller, builder, {
            lazy: this.#deps.limits.lazyBuild ?? false,
            headers: this.#context.request.headers,
          });
          const maxContextBytes = this.#deps.limits.maxBuildContextBytes;
          const { identity, request: { headers } } = this.#context;
          const who = buildCaller(this.#deps.access, identity, headers);
          return await builder.build({ ...request, caller: who, maxContextBytes }, {
            onEvent,
            signal,
          });
        },
        signal,
        (place) => onEvent({ type: "queued", place }),
      );
      await told();
      return { type: "result", result };
    } catch (error) {
      signal.throwIfAborted();
      await told();
      return { type: "error", error: toProblem(describeError(error, this.#context)) };
    }
  }
}

export function attachRoute(
  deps: ManagementDeps,
  slots: Semaphore,
  delegated: (own: Route["handler"]) => Route["handler"],
): Route {
  function attach(context: Context): Response {
    const control = Promise.withResolvers<YamuxStream>();
    const { session, response } = accept(context, deps.lifecycle, {
      attempt: "attach to a build",
      help: "use `svc build`, or send an archive to POST /.svc/v1/build",
      maxStreams: 1,
      takes: { build: (stream) => control.resolve(stream) },
    });
    const build = new AttachedBuild(context, { deps, slots, session, control: control.promise });
    build.run().finally(deps.lifecycle.begin());
    return response;
  }

  return {
    ...endpoint("GET /build/attach"),
    action: "build",
    help:
      "Attached session: a build that reads its contexts, secrets and SSH agents from the caller. The " +
      "caller's stream `build` has the request and the events (NDJSON); the server's are 9P2000.L, " +
      "listings, secrets and agents.",
    handler: delegated(attach),
  };
}
