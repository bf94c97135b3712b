/** Bodies of answers, sent only as fast as the client takes them. */
import type { Writable } from "node:stream";
import { SvcError } from "../../base/errors.ts";
import { canLend, descriptorOf } from "../../base/node_hooks.ts";
import type { BlobBody } from "../../oci/image.ts";
import type { Peer } from "./peer.ts";
import { sendFileTo } from "./sendfile.ts";

/** Reads of this size gave the best throughput for large bodies. */
const LARGE = 1024 * 1024;
/** For the first pieces and for slow clients: progress is visible only when a whole piece has left. */
const SMALL = 64 * 1024;
const SLOW_MS = 200;
/** Larger bodies of plain connections go from file to socket in the kernel. */
const NATIVE = 256 * 1024;
/** Pairs of large buffers kept for the next bodies. */
const POOLED = 4;

const pool: [Uint8Array, Uint8Array][] = [];

/** Resolves when the kernel has taken the bytes; rejects when the connection has closed. */
function write(out: Writable, peer: Peer, bytes: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    if (out.destroyed || peer.socket.destroyed) return reject(gone());
    peer.waiting = true;
    const closed = () => reject(gone());
    const forget = peer.onClose(closed);
    out.write(bytes, (error) => {
      forget();
      peer.waiting = false;
      peer.moved += bytes.length;
      if (error) reject(error);
      else resolve();
    });
  });
}

const gone = () => new SvcError("cancelled", "Cannot send the body: the client has gone");

/** Sends a stretch of a file with two buffers: one is filled while the other is sent. */
async function sendFile(
  out: Writable,
  peer: Peer,
  { path, offset }: { path: string; offset: number },
  size: number,
  sent: (bytes: number) => void,
): Promise<void> {
  using file = await Deno.open(path);
  if (offset > 0) await file.seek(offset, Deno.SeekMode.Start);
  const large = size > SMALL * 4;
  const buffers = large
    ? pool.pop() ?? [new Uint8Array(LARGE), new Uint8Array(LARGE)]
    : [new Uint8Array(Math.min(size, SMALL)), new Uint8Array(Math.min(size, SMALL))];
  let pending: Promise<void> = Promise.resolve();
  let piece = Math.min(SMALL, buffers[0].length);
  try {
    for (let left = size, turn = 0; left > 0; turn ^= 1) {
      const buffer = buffers[turn];
      const count = await file.read(buffer.subarray(0, Math.min(piece, left)));
      // The file is shorter than its blob. Ending here would make the body look complete.
      if (count === null) throw new SvcError("internal", `Cannot read ${path}: it is truncated`);
      await pending;
      const start = performance.now();
      pending = write(out, peer, buffer.subarray(0, count)).then(() => {
        sent(count);
        piece = performance.now() - start > SLOW_MS ? SMALL : Math.min(piece * 2, buffer.length);
      });
      // Awaited by the next turn or below; marked so that it never counts as unhandled before.
      pending.catch(() => {});
      left -= count;
    }
    await pending;
    // After a failure the connection may still read from the buffers: they are not used again.
    if (large && pool.length < POOLED) pool.push(buffers as [Uint8Array, Uint8Array]);
  } catch (error) {
    await pending.catch(() => {/* the first failure counts */});
    throw error;
  }
}

async function sendStream(
  out: Writable,
  peer: Peer,
  stream: ReadableStream<Uint8Array>,
  sent: (bytes: number) => void,
  frame: (bytes: Uint8Array) => Uint8Array = (bytes) => bytes,
): Promise<void> {
  const reader = stream.getReader();
  const closed = () => void reader.cancel(gone()).catch(() => {/* its own failure is not ours */});
  const forget = peer.onClose(closed);
  if (peer.socket.destroyed) closed();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      if (value.length === 0) continue;
      await write(out, peer, frame(value));
      sent(value.length);
    }
    if (peer.socket.destroyed) throw gone();
  } catch (error) {
    reader.cancel(error).catch(() => {/* it failed by itself */});
    throw error;
  } finally {
    forget();
  }
}

export type Content = Uint8Array | BlobBody | ReadableStream<Uint8Array> | null;

/**
 * Writes a body without ending `out`; a stream's pieces each in its `frame`. Rejects, and lets go of the
 * body, when the client goes.
 */
export async function send(
  out: Writable,
  peer: Peer,
  content: Content,
  sent: (bytes: number) => void,
  frame?: (bytes: Uint8Array) => Uint8Array,
): Promise<void> {
  if (content === null) return;
  if (content instanceof Uint8Array) {
    await write(out, peer, content);
    sent(content.length);
  } else if (content instanceof ReadableStream) {
    await sendStream(out, peer, content, sent, frame);
  } else if (content.size > 0) {
    if (content.file) {
      const { file, size } = content;
      // Over TLS nothing empty is written: behind another write it breaks the connection (EPERM).
      const large = size > NATIVE && out === peer.socket && canLend(peer.socket);
      // The head was written before the body: it must leave first.
      if (large) await write(out, peer, new Uint8Array(0));
      const direct = large ? descriptorOf(peer.socket) : undefined;
      if (direct === undefined) await sendFile(out, peer, file, size, sent);
      else if (!await sendFileTo(peer, direct, file, size, sent)) throw gone();
    } else await sendStream(out, peer, content.stream(), sent);
  }
}
