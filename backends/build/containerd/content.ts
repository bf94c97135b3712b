/** The worker's access to blobs and images. */
import type { Logger } from "../../../lib/base/log.ts";
import type { BuildWorker } from "../../../lib/build/worker.ts";
import type { ContainerdClient } from "../../../lib/containerd/client.ts";
import { ContainerdContent } from "../../../lib/containerd/content.ts";
import { GarbageCollection } from "../../../lib/containerd/garbage.ts";
import { ContainerdImages } from "../../../lib/containerd/images.ts";
import { PulledBlobs } from "./pulled.ts";

export interface ContentOptions {
  client: ContainerdClient;
  /** Marks this server's content. `[a-z0-9]`. */
  owner: string;
  log: Logger;
}

export interface OpenContent extends AsyncDisposable {
  parts: Required<Pick<BuildWorker, "through" | "shelves" | "imageStore">>;
}

/** Continues with the content of an earlier server. One per owner; dispose of it before the client. */
export async function openContent({ client, owner, log }: ContentOptions): Promise<OpenContent> {
  const content = new ContainerdContent(client, owner);
  const garbage = new GarbageCollection(client, log);
  const imageStore = new ContainerdImages({ client, content, owner, garbage });
  await imageStore.recover();
  const pulled = await PulledBlobs.open({ client, content, owner, garbage, log });
  return {
    parts: {
      through: (images) => pulled.through(images),
      shelves: [pulled],
      imageStore,
    },
    [Symbol.asyncDispose]: () => garbage.settled(),
  };
}
