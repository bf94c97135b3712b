/**
 * Sends files over plain connections with sendfile(2): the bytes do not pass through the runtime. This takes
 * half the processor time of reading and writing them.
 */
import * as fd from "../../sys/fd.ts";
import { O } from "../../sys/files.ts";
import { Readiness, sendFile, shutdown, unacknowledged } from "../../sys/readiness.ts";
import type { Peer } from "./peer.ts";

/** Bytes of one call: enough for the largest socket buffer, few enough that progress is seen. */
const CALL = 4 * 1024 * 1024;
/**
 * How often a slow client's progress is measured: a socket reports room only after a third of a large buffer
 * has left.
 */
const LOOK_MS = 5_000;

export const readiness = new Readiness();

/** Ends waits for the descriptor when the server or the client closes the connection. */
export function breakOnClose(peer: Peer, descriptor: number): () => void {
  return peer.onClose(() => {
    shutdown(descriptor);
    readiness.forget(descriptor);
  });
}

async function writable(peer: Peer, descriptor: number): Promise<boolean> {
  let before = unacknowledged(descriptor);
  peer.waiting = true;
  const timer = setInterval(() => {
    const now = unacknowledged(descriptor);
    peer.moved += before - now;
    before = now;
  }, LOOK_MS);
  try {
    return await readiness.wait(descriptor, "write");
  } finally {
    clearInterval(timer);
    peer.waiting = false;
  }
}

/**
 * Sends a stretch of a file. Earlier writes to the connection must have left. Takes over the descriptor. False
 * where the connection broke; throws where the file is too short.
 */
export async function sendFileTo(
  peer: Peer,
  descriptor: number,
  { path, offset }: { path: string; offset: number },
  size: number,
  sent: (bytes: number) => void,
): Promise<boolean> {
  const forget = breakOnClose(peer, descriptor);
  let file: number | undefined;
  try {
    file = fd.open(path, O.RDONLY);
    if (offset > 0) fd.seek(file, offset, path);
    for (let left = size; left > 0;) {
      if (peer.socket.destroyed) return false;
      const count = await sendFile(descriptor, file, Math.min(left, CALL));
      if (count === 0) throw new Error(`${path} ends ${left} bytes early`);
      if (count !== undefined) {
        left -= count;
        peer.moved += count;
        sent(count);
        continue;
      }
      if (!await writable(peer, descriptor)) return false;
    }
    return true;
  } finally {
    forget();
    readiness.forget(descriptor);
    fd.close(descriptor);
    if (file !== undefined) fd.close(file);
  }
}
