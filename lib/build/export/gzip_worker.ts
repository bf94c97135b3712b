/**
 * Worker that packs layers, one after the other: tar bytes in, packed bytes out, both digests on the way. The same input
 * gives the same bytes: no time and no name stand in a header, and the level is told.
 */
import { createHash, type Hash } from "node:crypto";
import type { Transform } from "node:stream";
import { type FromPacker, packStream, type ToPacker } from "./packer_wire.ts";

const port = self as unknown as {
  onmessage: ((event: MessageEvent<ToPacker>) => void) | null;
  postMessage(message: FromPacker, transfer?: Transferable[]): void;
};

let plain: Hash;
let packed: Hash;
let plainSize = 0;
let size = 0;
let packer: Transform;

function begin(stream: Transform): void {
  packer = stream;
  plain = createHash("sha256");
  packed = createHash("sha256");
  plainSize = size = 0;
  packer.on("data", (chunk: Uint8Array) => {
    packed.update(chunk);
    size += chunk.length;
    const bytes = new Uint8Array(chunk);
    port.postMessage({ type: "chunk", bytes }, [bytes.buffer]);
  });
  packer.on("end", () => {
    port.postMessage({
      type: "done",
      diffID: `sha256:${plain.digest("hex")}`,
      digest: `sha256:${packed.digest("hex")}`,
      size,
      plainSize,
    });
  });
  packer.on("error", (error: Error) => port.postMessage({ type: "error", message: error.message }));
}

port.onmessage = ({ data }) => {
  if (data.type === "begin") return begin(packStream(data.packing));
  if (data.type === "end") return void packer.end();
  const { bytes } = data;
  plain.update(bytes);
  plainSize += bytes.length;
  packer.write(bytes, () => port.postMessage({ type: "taken", bytes: bytes.length }));
};
