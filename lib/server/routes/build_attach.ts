/** `GET /.svc/v1/build/attach`: a build whose inputs stay with the caller (lib/api/build_session.ts). */
import type { BuildEvent } from "../../api/build.ts";
import {
  ATTACH_PATH,
  ATTACH_VERSION,
  type AttachRequest,
  CONTEXT_EXPORT,
  namedExport,
} from "../../api/build_session.ts";
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
import { socketLink } from "../../wire/socket_link.ts";
import { YamuxSession } from "../../wire/yamux/session.ts";
import type { YamuxStream } from "../../wire/yamux/stream.ts";
import { buildCaller, buildRequest } from "../build_request.ts";
import type { ManagementDeps } from "../deps.ts";
import { describeError } from "../error_response.ts";
import type { Context, Route } from "../route.ts";
import { API_PREFIX } from "./health.ts";

/** How long a caller may take to say what it wants, and to hang up after the end. */
const PATIENCE_MS = 30_000;

/** The request's line: a Dockerfile of 4 MiB and rules of 1 MiB with JSON's escapes. */
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

/** The engine's request: what the query says, and inputs that are read from the caller. */
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

/** One session on an open socket. */
class AttachedBuild {
  #context: Context;
  #deps: ManagementDeps;
  #slots: Semaphore;
  #session: YamuxSession;
  #control = Promise.withResolvers<YamuxStream>();
  #gone = new AbortController();

  constructor(context: Context, deps: ManagementDeps, slots: Semaphore, socket: WebSocket) {
    this.#context = context;
    this.#deps = deps;
    this.#slots = slots;
    this.#session = new YamuxSession(socketLink(socket), {
      role: "server",
      maxStreams: 1,
      onStream: (stream) => this.#control.resolve(stream),
    });
    // It may be gone before anyone waits.
    this.#control.promise.catch(() => {});
    socket.onmessage = ({ data }) => {
      if (data instanceof ArrayBuffer) this.#session.receive(new Uint8Array(data));
      else this.#session.lost("a message is not binary");
    };
    socket.onclose = () => this.#session.lost();
    this.#session.closed.then(() => {
      const reason = new SvcError("cancelled", "Cannot go on building: the caller went away");
      this.#control.reject(reason);
      this.#gone.abort(reason);
    });
  }

  async run(): Promise<void> {
    const late = setTimeout(() => this.#session.lost("the caller asks for nothing"), PATIENCE_MS);
    let caller: Caller | undefined;
    try {
      const control = await this.#control.promise;
      const lines = new LineReader(control, MAX_REQUEST);
      const value = await lines.line();
      clearTimeout(late);
      // Whoever ends the stream wants nothing more; nothing else comes on it.
      lines.read().then(() => this.#session.lost(), () => this.#session.lost());
      caller = this.#caller();
      const last = await this.#build(value, caller, control);
      await writeLine(control, last);
      await control.closeWrite();
      // The caller hangs up when it has read the end.
      const timer = setTimeout(() => this.#session.lost(), PATIENCE_MS);
      await this.#session.closed;
      clearTimeout(timer);
    } catch (error) {
      // The session broke, and with it everything that could be told.
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
      open: () => this.#session.open(),
      subject: this.#context.identity.subject,
      limit,
      tooLarge: contextTooLarge,
    });
  }

  /** The last event: never throws but for a session that is gone. */
  async #build(value: unknown, caller: Caller, control: YamuxStream): Promise<BuildEvent> {
    const events = new LineWriter(control);
    const onEvent = (event: BuildEvent) => events.send(event);
    /** All events are out; a caller that takes none of them is let go. */
    const told = async () => {
      let before = events.sent;
      const timer = setInterval(() => {
        if (events.sent === before) this.#session.lost("the caller takes no events");
        before = events.sent;
      }, PATIENCE_MS);
      await events.flush().finally(() => clearInterval(timer));
    };
    const { signal } = this.#gone;
    try {
      const attach = checkRequest(value);
      if (attach.version !== ATTACH_VERSION) throw otherVersion(attach.version);
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

function otherVersion(version: unknown): SvcError {
  return new SvcError(
    "unsupported",
    `Cannot build: the client speaks version ${version} of the session, the server ${ATTACH_VERSION}`,
    { help: "use a client of the server's own version" },
  );
}

/** Throws `argument_invalid` for a request that is no WebSocket. */
function requireUpgrade(request: Request): void {
  if (request.headers.get("upgrade")?.toLowerCase() === "websocket") return;
  throw new SvcError("argument_invalid", "Cannot attach to a build: the request is no WebSocket", {
    help: "use `svc build`, or send an archive to POST /.svc/v1/build",
  });
}

export function attachRoute(
  deps: ManagementDeps,
  slots: Semaphore,
  delegated: (own: Route["handler"]) => Route["handler"],
): Route {
  function attach(context: Context): Response {
    requireUpgrade(context.request);
    const { socket, response } = context.connection.upgrade(context.request);
    socket.binaryType = "arraybuffer";
    const end = deps.lifecycle.begin();
    const build = new AttachedBuild(context, deps, slots, socket);
    build.run().finally(end);
    return response;
  }

  return {
    method: "GET",
    path: `${API_PREFIX}${ATTACH_PATH}`,
    action: "build",
    help: "WebSocket: a build that reads its contexts, secrets and SSH agents from the caller. " +
      "yamux inside; stream 1 has the request and the events (NDJSON), the others are 9P2000.L, " +
      "listings, secrets and agents.",
    handler: delegated(attach),
  };
}
