/** Streams on a process's standard input and output: at the process, and at the one that started it. */
import { connDuplex, type Duplex } from "./duplex.ts";

/** This process's own: what it reads comes from standard input. */
export function ownStdio(): Duplex {
  return connDuplex({
    read: (into) => Deno.stdin.read(into),
    write: (bytes) => Deno.stdout.write(bytes),
    closeWrite: () => Promise.resolve(Deno.stdout.close()),
    close: () => Deno.stdout.close(),
  });
}

/** A child's, which was started with both piped. A reset closes both: a child that reads its input sees the end. */
export function childStdio({ stdin, stdout }: Deno.ChildProcess): Duplex {
  const writer = stdin.getWriter();
  const reader = stdout.getReader();
  // Told by the next call.
  writer.closed.catch(() => {});
  reader.closed.catch(() => {});
  return {
    read: async () => {
      for (;;) {
        const { value } = await reader.read();
        if (!value || value.length > 0) return value;
      }
    },
    write: (bytes) => writer.write(bytes as Uint8Array<ArrayBuffer>),
    closeWrite: () => writer.close().catch(() => {/* closed already */}),
    reset() {
      writer.abort().catch(() => {/* closed already */});
      reader.cancel().catch(() => {/* closed already */});
    },
  };
}
