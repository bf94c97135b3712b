/** Worker that packs blocks of layers, one after the other. */
import { type FromPacker, packBlock, type ToPacker } from "./packer_wire.ts";

const port = self as unknown as {
  onmessage: ((event: MessageEvent<ToPacker>) => void) | null;
  postMessage(message: FromPacker, transfer?: Transferable[]): void;
};

port.onmessage = ({ data: { job, bytes, packing } }) => {
  try {
    const packed = packBlock(bytes, packing);
    // Frees the memory now: garbage collection may come much later.
    if (packed.bytes !== bytes) bytes.buffer.transfer(0);
    port.postMessage({ job, packed }, [packed.bytes.buffer]);
  } catch (error) {
    port.postMessage({ job, error: (error as Error).message });
  }
};
