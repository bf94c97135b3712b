/** How the files of a mount with `,async` are opened: what the caller says of one comes with the answer. */
import { OPEN } from "../files/node.ts";
import type { NinepClient } from "../ninep/client.ts";
import type { Writer } from "../ninep/messages.ts";
import type { Opening } from "../ninep/remote_file.ts";
import { BlockFile } from "./block_file.ts";
import { KeptBlocks } from "./kept_blocks.ts";
import type { Asked } from "./kept_file.ts";
import { BLOCK, putProofs, readVersion, type Version } from "./protocol.ts";

export class AheadBlocks extends KeptBlocks {
  override opening(
    client: NinepClient,
    { id, flags = 0 }: { id?: bigint; flags?: number },
  ): Opening {
    if (id !== undefined) this.changed(id, (flags & OPEN.TRUNC) !== 0);
    const writes = (this.flags(flags) & OPEN.ACCESS) === OPEN.RDWR;
    const known = id === undefined ? undefined : this.keptOf(id);
    let look: { asked?: Asked; answer: Promise<Version> } | undefined;
    return {
      follow: (fid) => {
        if (!client.inOrder) return;
        const fill = (request: Writer) => putProofs(request.u32(fid).u64(0), []);
        const answer = client.ask(BLOCK.LOOK, fill, readVersion);
        answer.catch(() => {/* who needs it asks again */});
        look = { asked: known?.asked(), answer };
      },
      file: (fid, made) => {
        // It may have been there, and be cut by being made.
        const fresh = !this.keeps(made);
        if (id === undefined) this.changed(made, true);
        const file = new BlockFile(client, fid, made, this, writes);
        const kept = this.keptOf(made);
        // What was kept when it was asked, another one's close may have forgotten. Nothing was kept of a file that is
        // new here.
        const asked = known === kept ? look?.asked : !known && fresh ? kept.asked() : undefined;
        if (look && asked) file.begin(look.answer, asked);
        return file;
      },
    };
  }
}
