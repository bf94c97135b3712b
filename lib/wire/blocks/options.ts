/** How the blocks of a mount with `,async` are kept coherent with the caller's files (docs/mounts.md). */
export interface BlockOptions {
  /** What a write builds on is proved part by part, not block by block. */
  subhash?: boolean;
  /** What was written is proved when it is synced, instead of what it builds on with each write. */
  defer?: boolean;
  /** Only the parts that are read are fetched, not whole blocks. */
  subfill?: boolean;
  /** With `subfill`: bytes that are fetched ahead, at most. */
  readAhead?: number;
}
