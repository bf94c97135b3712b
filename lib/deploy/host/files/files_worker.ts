/**
 * The Worker behind jobs.ts: synchronous work on files of workloads, one job at a time. A file system that the
 * workload itself serves may hold it up for ever, and then only it.
 */
import { asSvcError, type ErrorCode } from "../../../base/errors.ts";
import { TarParser } from "../../../oci/tar_parser.ts";
import type { FileChange, FileStat } from "../../caps.ts";
import { changesIn, type ChangesOf } from "./changes.ts";
import { pack, statIn } from "./pack.ts";
import { Unpacker } from "./unpack.ts";

/** `root`: a descriptor of the workload's root, open until the job is done. */
export type FilesJob =
  | { kind: "stat"; root: number; path: string }
  | { kind: "pack"; root: number; path: string }
  | { kind: "changes"; root: number; path: string; of: ChangesOf }
  | { kind: "unpack"; root: number; path: string; tar: ReadableStream<Uint8Array> };

/** `begun`: what was asked for was found. `done` is the last message, and so is `failed`. */
export type FromFiles =
  | { type: "begun"; stat?: FileStat; tar?: ReadableStream<Uint8Array> }
  | { type: "done"; changes?: FileChange[] }
  | { type: "failed"; code: ErrorCode; message: string; help: string };

const scope = self as unknown as {
  postMessage(message: FromFiles, transfer?: Transferable[]): void;
  onmessage: (event: MessageEvent<FilesJob>) => void;
};

scope.onmessage = async ({ data }) => {
  try {
    if (data.kind === "pack") return packed(data);
    if (data.kind === "changes") return changed(data);
    if (data.kind === "unpack") await unpacked(data);
    else scope.postMessage({ type: "begun", stat: statIn(data.root, data.path) });
    scope.postMessage({ type: "done" });
  } catch (error) {
    fail(error);
  }
};

function fail(error: unknown): void {
  const { code, message, help } = asSvcError(error);
  scope.postMessage({ type: "failed", code, message, help });
}

function changed({ root, of }: Extract<FilesJob, { kind: "changes" }>): void {
  // No mount of a workload is in the way: the walk may take its time.
  scope.postMessage({ type: "begun" });
  scope.postMessage({ type: "done", changes: changesIn(root, of) });
}

function packed({ root, path }: FilesJob): void {
  const { stat, archive } = pack(root, path);
  const tar = new ReadableStream<Uint8Array>({
    pull(controller) {
      try {
        const { done, value } = archive.next();
        if (!done) return controller.enqueue(value);
        controller.close();
        scope.postMessage({ type: "done" });
      } catch (error) {
        // Told first: the stream's own error loses its kind on the way.
        fail(error);
        controller.error(error);
      }
    },
    cancel() {
      archive.return();
      scope.postMessage({ type: "done" });
    },
  }, { highWaterMark: 1 });
  scope.postMessage({ type: "begun", stat, tar }, [tar as unknown as Transferable]);
}

async function unpacked({ root, path, tar }: Extract<FilesJob, { kind: "unpack" }>): Promise<void> {
  using unpacker = new Unpacker(root, path);
  scope.postMessage({ type: "begun" });
  const parser = new TarParser(unpacker);
  for await (const chunk of tar) parser.push(chunk);
  parser.finish();
  unpacker.finish();
}
