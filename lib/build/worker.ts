/** What a build worker gives: where steps run, where their snapshots are, and where images are. */
import type { BlobBody, ImageSink } from "../oci/image.ts";
import type { ImageResolver } from "../oci/resolver.ts";
import type { Descriptor } from "../oci/types.ts";
import type { Snapshotter } from "../snapshot/snapshotter.ts";
import type { Shelf } from "./cache/shelf.ts";
import type { Executor } from "./executor.ts";

/** Images of the worker's own, for other programs of this host. */
export interface ImageStore {
  /**
   * Where one image is put, under complete names. What was put is safe from the store's own collector until
   * this is disposed of, and afterwards what a name leads to is.
   */
  open(): Promise<ImageSink & AsyncDisposable>;
  /** A blob of an image that is there still; undefined: there is none. */
  find(
    descriptor: Pick<Descriptor, "digest" | "size">,
    signal?: AbortSignal,
  ): Promise<BlobBody | undefined>;
}

export interface BuildWorker extends AsyncDisposable {
  executor: Executor;
  /** Absent: the worker's steps run on the server's own snapshots. */
  snapshotter?: Snapshotter;
  /** The images that builds stand on, by way of what the worker keeps of them. */
  through?(images: ImageResolver): ImageResolver;
  /** What it keeps between builds. */
  shelves?: Shelf[];
  imageStore?: ImageStore;
}
