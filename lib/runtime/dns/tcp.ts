/** DNS messages on a stream: each has its length before it (RFC 1035 section 4.2.2). */

type Stream = Pick<Deno.Conn, "read" | "write">;

async function readFull(stream: Stream, length: number): Promise<Uint8Array | undefined> {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length;) {
    const count = await stream.read(bytes.subarray(at));
    if (count === null) return undefined;
    at += count;
  }
  return bytes;
}

/** Undefined where the stream ends before a whole message. */
export async function readMessage(stream: Stream): Promise<Uint8Array | undefined> {
  const head = await readFull(stream, 2);
  return head && await readFull(stream, head[0] << 8 | head[1]);
}

export async function writeMessage(stream: Stream, message: Uint8Array): Promise<void> {
  const framed = new Uint8Array(message.length + 2);
  framed[0] = message.length >> 8;
  framed[1] = message.length & 0xff;
  framed.set(message, 2);
  for (let at = 0; at < framed.length;) at += await stream.write(framed.subarray(at));
}
