/**
 * Worker that packs one layer: tar bytes in, gzip bytes out, both digests on the way. The same input gives
 * the same bytes: no time and no name stand in the gzip header, and the level is fixed.
 */
import { createHash } from "node:crypto";
import { createGzip } from "node:zlib";
import { type FromPacker, GZIP_LEVEL, type ToPacker } from "./packer_wire.ts";

const port = self as unknown as {
  onmessage: ((event: MessageEvent<ToPacker>) => void) | null;
  postMessage(message: FromPacker, transfer?: Transferable[]): void;
};

const plain = createHash("sha256");
const packed = createHash("sha256");
let plainSize = 0;
let size = 0;

const gzip = createGzip({ level: GZIP_LEVEL, chunkSize: 256 * 1024 });

gzip.on("data", (chunk: Uint8Array) => {
  packed.update(chunk);
  size += chunk.length;
  const bytes = new Uint8Array(chunk);
  port.postMessage({ type: "chunk", bytes }, [bytes.buffer]);
});
gzip.on("end", () => {
  port.postMessage({
    type: "done",
    diffID: `sha256:${plain.digest("hex")}`,
    digest: `sha256:${packed.digest("hex")}`,
    size,
    plainSize,
  });
});
gzip.on("error", (error: Error) => port.postMessage({ type: "error", message: error.message }));

port.onmessage = ({ data }) => {
  if (data.type === "end") return void gzip.end();
  const { bytes } = data;
  plain.update(bytes);
  plainSize += bytes.length;
  gzip.write(bytes, () => port.postMessage({ type: "taken", bytes: bytes.length }));
};
