/** What a build worker provides: the executor, the snapshots and an image store. */
import type { BlobBody, ImageSink } from "../oci/image.ts";
import type { ImageResolver } from "../oci/resolver.ts";
import type { Descriptor } from "../oci/types.ts";
import type { Snapshotter } from "../snapshot/snapshotter.ts";
import type { Shelf } from "./cache/shelf.ts";
import type { Executor } from "./executor.ts";

/** The worker's own images, which other programs of this host can use. */
export interface ImageStore {
  /**
   * Opens a sink for one image, under complete names. The store's garbage collector leaves the image alone
   * until the sink is disposed of, and afterwards what a name leads to.
   */
  open(): Promise<ImageSink & AsyncDisposable>;
  /** A blob of an image in the store; undefined where it is missing. */
  find(
    descriptor: Pick<Descriptor, "digest" | "size">,
    signal?: AbortSignal,
  ): Promise<BlobBody | undefined>;
}

export interface BuildWorker extends AsyncDisposable {
  executor: Executor;
  /** Absent: steps run on the server's own snapshots. */
  snapshotter?: Snapshotter;
  /** A resolver for base images that uses the worker's kept images. */
  through?(images: ImageResolver): ImageResolver;
  /** The worker's own shelves of the build cache. */
  shelves?: Shelf[];
  imageStore?: ImageStore;
}
