/** Whole answers written to a bare connection. */
import { Buffer } from "node:buffer";
import { SvcError } from "../../base/errors.ts";
import { contentOf, type Ending, isLive } from "./exchange.ts";
import { renderHead } from "./head.ts";
import type { Peer } from "./peer.ts";
import { send } from "./send.ts";

/** Bodies up to this size are written together with their head. */
const TOGETHER = 64 * 1024;

const encoder = new TextEncoder();
const CRLF = Buffer.from("\r\n");
const LAST_CHUNK = Buffer.from("0\r\n\r\n");

/** The framing of bodies whose length is not known (RFC 9112 7.1). */
function chunk(bytes: Uint8Array): Uint8Array {
  return Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, CRLF]);
}

export interface RespondOptions {
  method: string;
  ending: Ending;
  /** The connection closes after this answer, and the answer says that. */
  last?: boolean;
}

/** Rejects where the answer could not be written whole. */
export async function respond(
  peer: Peer,
  response: Response,
  { method, ending, last = false }: RespondOptions,
): Promise<void> {
  const { socket } = peer;
  const { pairs, content } = await contentOf(response, method);
  if (socket.destroyed) {
    if (content instanceof ReadableStream) await content.cancel();
    return;
  }
  const live = isLive(content, pairs);
  if (live) peer.phase = "live";
  const extra = (live ? "transfer-encoding: chunked\r\n" : "") +
    (last ? "connection: close\r\n" : "");
  const text = renderHead(response.status, pairs, extra);
  if (content === null) {
    socket.write(encoder.encode(text));
  } else if (content instanceof Uint8Array && content.length <= TOGETHER) {
    // The head is ASCII: as many bytes as characters.
    const bytes = new Uint8Array(text.length + content.length);
    encoder.encodeInto(text, bytes);
    bytes.set(content, text.length);
    socket.write(bytes);
    ending.count(content.length);
  } else {
    socket.write(encoder.encode(text));
    await send(socket, peer, content, ending.count, live ? chunk : undefined);
    if (live) socket.write(LAST_CHUNK);
  }
  // A client that sends requests and reads no answers must not fill the memory with answers.
  if (socket.writableNeedDrain) await drained(peer);
  ending.whole = true;
}

/** Resolves when the written bytes have left; rejects where the connection has closed. */
function drained(peer: Peer): Promise<void> {
  const { socket } = peer;
  return new Promise((resolve, reject) => {
    if (socket.destroyed) return reject(gone());
    peer.waiting = true;
    const forget = peer.onClose(() => reject(gone()));
    socket.once("drain", () => {
      forget();
      peer.waiting = false;
      resolve();
    });
  });
}

const gone = () => new SvcError("cancelled", "Cannot send the answer: the client has gone");
