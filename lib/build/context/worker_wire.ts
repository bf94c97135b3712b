/** What passes between the context's code and its Worker: one job each, unpacking or copying. */
import type { ErrorCode } from "../../base/errors.ts";
import type { CopyOptions, RestOfFolder } from "./copy.ts";
import type { FileBatch, FileOptions } from "./copy_files.ts";
import type { Selection, Tree } from "./tree.ts";
import type { UnpackedContext } from "./unpack_context.ts";

export type ToContextWorker =
  | { type: "unpack"; root: string; dockerfile: string }
  | { type: "chunk"; bytes: Uint8Array<ArrayBuffer> }
  | { type: "end" }
  /** Nothing more is to be written; answered by `stopped`, or by what ended the job before. */
  | { type: "stop" }
  | { type: "copy"; tree: Tree; selections: Selection[]; options: Omit<CopyOptions, "signal"> }
  | { type: "files"; batches: FileBatch[]; options: Omit<FileOptions, "signal"> };

export type FromContextWorker =
  | { type: "taken"; bytes: number }
  | { type: "unpacked"; result: UnpackedContext }
  | { type: "copied"; rest: RestOfFolder[] }
  | { type: "stopped" }
  | { type: "error"; code: ErrorCode; message: string; help: string };
