/** The server's end of an attached session (lib/wire/attached/session.ts), from the request on. */
import { SvcError } from "../../base/errors.ts";
import { agree, type Hello, HELLO_HEADER, readHello } from "../../wire/attached/hello.ts";
import { Attached, type AttachedOptions } from "../../wire/attached/session.ts";
import type { Lifecycle } from "../lifecycle.ts";
import type { Context } from "../route.ts";

/** What the request attempts ("exec in web"), and which command to use for it: for errors. */
export interface Purpose {
  attempt: string;
  help: string;
}

/**
 * The hello that the caller sent; undefined where the request has none. Throws `unsupported`, as an ordinary
 * answer, for a caller with no protocol version in common with this server.
 */
export function greet({ request }: Context, attempt: string): Hello | undefined {
  const hello = readHello(request.headers.get(HELLO_HEADER) ?? "");
  if (hello) agree(hello, { attempt, who: "client" });
  return hello;
}

function requireHello(context: Context, { attempt, help }: Purpose): Hello {
  const hello = greet(context, attempt);
  // A client whose upgrade was refused repeats the request without an upgrade, to read the reason as an answer.
  // So this error comes after the other reasons for a refusal.
  if (context.request.headers.get("upgrade")?.toLowerCase() !== "websocket") {
    throw new SvcError("argument_invalid", `Cannot ${attempt}: the request is not a WebSocket`, {
      help,
    });
  }
  if (hello) return hello;
  throw new SvcError(
    "unsupported",
    `Cannot ${attempt}: the client does not speak attached sessions`,
    { help: "the client is the older one: update svc there" },
  );
}

export interface AcceptOptions extends Purpose, Omit<AttachedOptions, "role" | "hello"> {
  /** Called when the server shuts down: ends the session, at once or when the work under way is done. */
  onStop?: (session: Attached) => void;
}

/**
 * The session on the request's connection. The server's shutdown waits for its end. Throws, as ordinary
 * answers, `argument_invalid` for a request that is not a WebSocket and `unsupported` for a caller that speaks
 * no version of this server's.
 */
export function accept(
  context: Context,
  lifecycle: Lifecycle,
  { onStop, help, ...options }: AcceptOptions,
): { session: Attached; response: Response } {
  const { attempt } = options;
  const hello = requireHello(context, { attempt, help });
  const { socket, response } = context.connection.upgrade(context.request);
  const session = new Attached({ ...options, role: "server", hello });
  socket.binaryType = "arraybuffer";
  socket.onopen = () => session.opened(socket);
  socket.onmessage = ({ data }) =>
    session.receive(typeof data === "string" ? data : new Uint8Array(data));
  socket.onclose = (event) => session.closedBy(event);
  const end = lifecycle.begin();
  const stop = () => onStop?.(session);
  lifecycle.stopping.addEventListener("abort", stop, { once: true });
  if (lifecycle.stopping.aborted) stop();
  void session.closed.then(() => {
    lifecycle.stopping.removeEventListener("abort", stop);
    end();
  });
  return { session, response };
}
