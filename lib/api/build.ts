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
  /** The build waits for others: its place in the queue of the server's builds, from 1. */
  | { type: "queued"; place: number }
  | { type: "warning"; message: string; line?: number; rule?: string }
  | { type: "result"; result: BuildResult }
  | { type: "error"; error: Problem };

export interface BuildResult {
  /** Digest of the image's manifest, or of its index; "" where no image was made. */
  digest: string;
  /** Digest of the image's config: docker's image id. With several platforms, the first one's. */
  imageId: string;
  /** Media type of the manifest or index that `digest` names; `descriptorSize` is its size in bytes. */
  mediaType?: string;
  descriptorSize?: number;
  /** Complete names, with registry and tag, that the image was published under. */
  names: string[];
  /** Bytes of all layers, compressed. */
  size: number;
  /** The platforms of an index. */
  platforms?: BuiltPlatform[];
  /** Archives that the client has to download (`GET /build/outputs/{id}`). */
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
  /** Digest of the cache's manifest. */
  digest: string;
  /** Bytes of its blobs. */
  size: number;
  /** The name that the cache was pushed to. */
  name?: string;
  /** Id of an archive of the cache that the client has to download (`GET /build/outputs/{id}`). */
  id?: string;
}
