/** A server's end of an attached session for tests: it says and does what the test wants. */
import { type Hello, HELLO_HEADER, readHello } from "./hello.ts";
import { type Kind, KINDS } from "./kinds.ts";
import { Attached, type AttachedOptions, type Handler } from "./session.ts";
import type { YamuxStream } from "../yamux/stream.ts";

/** One handler for streams of every kind. */
export function takesAll(
  take: (kind: Kind, stream: YamuxStream) => unknown,
): Partial<Record<Kind, Handler>> {
  return Object.fromEntries(
    Object.keys(KINDS).map((kind): [string, Handler] => [
      kind,
      (stream) => take(kind as Kind, stream),
    ]),
  );
}

/** Accepts any caller. Streams wait until the socket is open. */
export function upgradeAttached(
  request: Request,
  options: Omit<AttachedOptions, "role" | "hello" | "attempt"> = {},
): { session: Attached; hello: Hello; response: Response } {
  const hello = readHello(request.headers.get(HELLO_HEADER) ?? "")!;
  const { socket, response } = Deno.upgradeWebSocket(request);
  const session = new Attached({ ...options, attempt: "test", role: "server", hello });
  socket.binaryType = "arraybuffer";
  socket.onopen = () => session.opened(socket);
  socket.onmessage = ({ data }) =>
    session.receive(typeof data === "string" ? data : new Uint8Array(data));
  socket.onclose = (event) => session.closedBy(event);
  return { session, hello, response };
}
