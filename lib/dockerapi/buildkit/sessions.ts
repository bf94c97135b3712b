/**
 * Sessions of docker's build clients: connections on which the client answers what a build asks for (`POST
 * /session`). A build names its session by an id that only its client knows.
 */
import type { Duplex } from "node:stream";
import { deadline } from "../../base/deadline.ts";
import { SvcError } from "../../base/errors.ts";
import { waitFor } from "../../base/wait_for.ts";
import { type GrpcPeer, openPeer } from "../../wire/grpc/peer.ts";
import { notFound } from "../errors.ts";

/** Milliseconds for which a build waits for its session: clients open both at the same time. */
const PATIENCE_MS = 10_000;

export interface BuildClient {
  peer: GrpcPeer;
  /** Methods that the client answers: "/package.service/name", in lower case. */
  methods: ReadonlySet<string>;
  /** Aborts when the client's connection has ended. */
  gone: AbortSignal;
}

export interface Announced {
  id: string;
  methods: readonly string[];
}

export class BuildSessions {
  readonly #open = new Map<string, BuildClient>();
  readonly #waiting = new Map<string, PromiseWithResolvers<BuildClient>>();

  /** Serves a session until its connection ends. Throws `conflict` where there is one of that id. */
  async hold(connection: Duplex, { id, methods }: Announced, signal: AbortSignal): Promise<void> {
    if (this.#open.has(id)) {
      throw new SvcError("conflict", `Cannot open session ${id}: there is one of this id`);
    }
    using peer = openPeer(connection);
    const ended = new AbortController();
    const client: BuildClient = {
      peer,
      methods: new Set(methods.map((name) => name.toLowerCase())),
      gone: ended.signal,
    };
    this.#open.set(id, client);
    this.#waiting.get(id)?.resolve(client);
    const end = () => peer[Symbol.dispose]();
    signal.addEventListener("abort", end, { once: true });
    if (signal.aborted) end();
    const closed = new Promise<void>((resolve) => connection.once("close", () => resolve()));
    await Promise.race([peer.closed, closed]);
    signal.removeEventListener("abort", end);
    this.#open.delete(id);
    ended.abort(new SvcError("cancelled", "Cannot go on building: docker's client has gone"));
  }

  /** The session of a build. Throws `not_found` where it does not come. */
  async find(id: string, signal: AbortSignal): Promise<BuildClient> {
    const open = this.#open.get(id);
    if (open) return open;
    const waiting = this.#waiting.get(id) ?? Promise.withResolvers<BuildClient>();
    this.#waiting.set(id, waiting);
    const late = () => notFound(`no active session for ${id}: context deadline exceeded`);
    using limit = deadline(PATIENCE_MS, late, signal);
    try {
      return await waitFor(waiting.promise, limit.signal);
    } finally {
      this.#waiting.delete(id);
    }
  }
}

/** True where the client answers that method. */
export const answers = ({ methods }: BuildClient, { path }: { path: string }): boolean =>
  methods.has(`/${path}`.toLowerCase());
