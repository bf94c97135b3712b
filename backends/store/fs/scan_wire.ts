/** What the store and the thread that reads many small objects say to each other. */

/** `begin` is answered by the first page, each `next` by one more, until the last. */
export type ScanAsk =
  | { type: "begin"; root: string; prefix: string; bytes: boolean }
  /** `spare`: the buffer of a page that nobody looks at any more. */
  | { type: "next"; spare?: ArrayBuffer };

/** A page's buffer holds first what its objects hold, if that was asked for, then their keys. */
export interface ScannedPage {
  type: "page";
  buffer: ArrayBuffer;
  /** How much each object holds. */
  sizes?: number[];
  /** Where the keys begin and end: ASCII, each followed by a NUL. */
  keysAt: number;
  end: number;
}

export type ScanTell = ScannedPage | { type: "end" } | { type: "failed"; message: string };
