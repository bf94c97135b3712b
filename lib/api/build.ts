/** Events of `POST /.svc/v1/build`: one JSON object a line, the last one `result` or `error`. */
import type { Problem } from "./problem.ts";

export type BuildEvent =
  /** A vertex of the graph became known. `stage` is the stage's name or number. */
  | { type: "vertex"; id: string; name: string; stage?: string; line?: number }
  | { type: "start"; id: string; time: string }
  | { type: "cached"; id: string }
  | { type: "output"; id: string; stream: "stdout" | "stderr"; text: string }
  /** Bytes moved so far (pull, push, context), of `total` where known. */
  | { type: "progress"; id: string; label: string; current: number; total?: number }
  | { type: "done"; id: string; durationMs: number }
  | { type: "failed"; id: string; message: string }
  | { type: "warning"; message: string; line?: number; rule?: string }
  | { type: "result"; result: BuildResult }
  | { type: "error"; error: Problem };

export interface BuildResult {
  /** Digest of the image's manifest. */
  digest: string;
  /** Digest of its config: docker's image id. */
  imageId: string;
  /** Names it was published under, complete with registry and tag. */
  names: string[];
  /** Bytes of all layers, compressed. */
  size: number;
  /** Steps run and steps answered by the cache. */
  ran: number;
  cached: number;
  durationMs: number;
}
