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
  /** It waits for others: its place in the queue of the server's builds, from 1. */
  | { type: "queued"; place: number }
  | { type: "warning"; message: string; line?: number; rule?: string }
  | { type: "result"; result: BuildResult }
  | { type: "error"; error: Problem };

export interface BuildResult {
  /** Digest of the image's manifest, or of its index; "" where no image was made. */
  digest: string;
  /** Digest of its config: docker's image id. Of several platforms the first one's. */
  imageId: string;
  /** Of what `digest` stands for; its bytes. */
  mediaType?: string;
  descriptorSize?: number;
  /** Names it was published under, complete with registry and tag. */
  names: string[];
  /** Bytes of all layers, compressed. */
  size: number;
  /** What an index holds. */
  platforms?: BuiltPlatform[];
  /** Archives that wait to be taken (`GET /build/outputs/{id}`). */
  outputs?: BuildOutput[];
  /** Caches that were stored where `cacheto` says. */
  caches?: BuiltCache[];
  /** Steps run and steps answered by the cache. */
  ran: number;
  cached: number;
  durationMs: number;
}

export interface BuiltPlatform {
  /** "linux/arm64". */
  platform: string;
  digest: string;
  imageId: string;
  size: number;
}

export interface BuildOutput {
  /** Place of the `output` parameter that asked for it, from 0. */
  index: number;
  type: "oci" | "docker" | "tar" | "local";
  id: string;
  /** Bytes of the archive. */
  size: number;
}

export interface BuiltCache {
  /** Place of the `cacheto` parameter, from 0. */
  index: number;
  /** Of its manifest. */
  digest: string;
  /** Bytes of its blobs. */
  size: number;
  /** Where it was pushed to. */
  name?: string;
  /** An archive of it that waits to be taken (`GET /build/outputs/{id}`). */
  id?: string;
}
