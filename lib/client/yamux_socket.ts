/** A WebSocket of the server's with yamux inside it. */
import { socketLink } from "../wire/socket_link.ts";
import { type YamuxOptions, YamuxSession } from "../wire/yamux/session.ts";
import type { Client } from "./client.ts";

/** Throws what `client.socket` does. The caller closes the session. */
export async function openYamux(
  client: Client,
  path: string,
  options: Omit<YamuxOptions, "role"> = {},
): Promise<YamuxSession> {
  // The socket is there before the session is: what came until then waits.
  const waiting: ((session: YamuxSession) => void)[] = [];
  const state: { tell(what: (session: YamuxSession) => void): void } = {
    tell: (what) => void waiting.push(what),
  };
  const socket = await client.socket(path, undefined, {
    onMessage: (data) => state.tell((session) => session.receive(data)),
    onClose: () => state.tell((session) => session.lost()),
  });
  const session = new YamuxSession(socketLink(socket), { role: "client", ...options });
  state.tell = (what) => what(session);
  for (const what of waiting) what(session);
  return session;
}
