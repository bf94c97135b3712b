/** A connection within a gRPC call of messages of bytes: some clients bring their session in one. */
import { Duplex } from "node:stream";
import type { Answering } from "../../wire/grpc/server.ts";

interface Bytes {
  data: Uint8Array;
}

export function tunnelOf({ messages, send, signal }: Answering<Bytes, Bytes>): Duplex {
  const reading = messages[Symbol.asyncIterator]();
  const tunnel = new Duplex({
    read() {
      reading.next().then(
        // The client ends a session by ending its side: nothing is left to send then.
        ({ done, value }) => done ? this.destroy() : this.push(value.data),
        (error) => this.destroy(error),
      );
    },
    write(data: Uint8Array, _encoding, done) {
      send({ data }).then(() => done(), done);
    },
  });
  signal.addEventListener("abort", () => tunnel.destroy(), { once: true });
  return tunnel;
}
