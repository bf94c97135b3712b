/** Messages between the context's code and its Worker, which runs one job (unpacking or copying) at a time. */
import type { ErrorCode } from "../../base/errors.ts";
import type { CopyOptions } from "./copy.ts";
import type { FileBatch, FileOptions } from "./copy_files.ts";
import type { Selection, Tree } from "./tree.ts";
import type { UnpackedContext } from "./unpack_context.ts";

export type ToContextWorker =
  | { type: "unpack"; root: string; dockerfile: string }
  | { type: "chunk"; bytes: Uint8Array<ArrayBuffer> }
  | { type: "end" }
  /** Asks the Worker to write nothing more. It answers with `stopped`, or with the job's own last message. */
  | { type: "stop" }
  | { type: "copy"; tree: Tree; selections: Selection[]; options: Omit<CopyOptions, "signal"> }
  | { type: "files"; batches: FileBatch[]; options: Omit<FileOptions, "signal"> };

export type FromContextWorker =
  | { type: "taken"; bytes: number }
  | { type: "unpacked"; result: UnpackedContext }
  | { type: "copied" }
  | { type: "stopped" }
  | { type: "error"; code: ErrorCode; message: string; help: string };
