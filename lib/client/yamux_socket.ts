/** A WebSocket of the server's with yamux inside it. */
import { socketLink } from "../wire/socket_link.ts";
import { type YamuxOptions, YamuxSession } from "../wire/yamux/session.ts";
import type { Client } from "./client.ts";
import type { openPlainLink } from "./plain_link.ts";

/**
 * Throws what `client.socket` does. The caller closes the session. `soon`: how it is opened where the
 * server need not tell apart how it ends.
 */
export async function openYamux(
  client: Client,
  path: string,
  { soon, ...options }: Omit<YamuxOptions, "role"> & { soon?: typeof openPlainLink } = {},
): Promise<YamuxSession> {
  // The socket is there before the session is: what came until then waits.
  const waiting: ((session: YamuxSession) => void)[] = [];
  const state: { tell(what: (session: YamuxSession) => void): void } = {
    tell: (what) => void waiting.push(what),
  };
  const handlers = {
    onMessage: (data: Uint8Array<ArrayBuffer>) => state.tell((session) => session.receive(data)),
    onClose: () => state.tell((session) => session.lost()),
  };
  const link = soon && await client.link?.(path, handlers, soon);
  const session = new YamuxSession(
    link ?? socketLink(await client.socket(path, undefined, handlers)),
    { role: "client", ...options },
  );
  state.tell = (what) => what(session);
  for (const what of waiting) what(session);
  return session;
}
