/** The caller's end of an attached session (lib/wire/attached/session.ts). */
import type { SocketPath } from "../../api/endpoints.ts";
import { HELLO_HEADER, type Resume } from "../../wire/attached/hello.ts";
import { Attached, type AttachedOptions, lost } from "../../wire/attached/session.ts";
import type { Client } from "../client.ts";

export interface AttachOptions extends Omit<AttachedOptions, "role" | "hello"> {
  query?: URLSearchParams;
  /** Names the earlier session to resume, whose connection was lost. */
  resume?: Resume;
  /** Aborting it gives up the attempt to open the session; an open session is not touched. */
  signal?: AbortSignal;
  /** Settles when the server has opened the streams that it opens first; `attach` waits for it too. */
  begun?: Promise<unknown>;
  /** Called with the server's hello: it has begun with what was asked for. What it throws ends the session. */
  onReady?: () => void | Promise<void>;
  /** Does not wait for the server's hello; an error in its place is thrown by the first stream's reader. */
  early?: boolean;
}

/**
 * Opens a session at a path of the management API. Throws what `client.socket` throws, `unsupported` for a
 * server of another version, the error that the server sent instead of its hello, or the signal's reason. The
 * caller ends the session.
 */
export async function attach(
  client: Client,
  path: SocketPath,
  { query, resume, signal, begun, early, onReady, ...options }: AttachOptions,
): Promise<Attached> {
  signal?.throwIfAborted();
  const session = new Attached({ ...options, role: "caller" });
  const abort = () => session[Symbol.dispose]();
  signal?.addEventListener("abort", abort, { once: true });
  let open = false;
  const ended = session.closed.then(async (reason) => {
    // Messages that arrived before the end are handled first: they may complete the opening.
    if (!open) await new Promise((resolve) => setTimeout(resolve));
    throw reason ?? lost("the server ended it");
  });
  ended.catch(() => {/* told, or nobody waits for it */});
  const opening = client.socket(path, query, {
    headers: { [HELLO_HEADER]: Attached.hello(options, resume) },
    onMessage: (data) => session.receive(data),
    onClose: (event) => session.closedBy(event),
  }).then(async (socket) => {
    session.opened(socket);
    if (!early || onReady) await session.ready;
    await onReady?.();
    await begun;
  });
  opening.catch(() => {/* told, or nobody waits for it */});
  try {
    await Promise.race([opening, ended]);
    open = true;
    return session;
  } catch (error) {
    session[Symbol.dispose]();
    signal?.throwIfAborted();
    throw error;
  } finally {
    signal?.removeEventListener("abort", abort);
  }
}
