/**
 * containerd's images as a registry has them: the ability `images` of the containerd backend, read and write (SPEC
 * "Registry view rules" 2).
 */
import type { Logger } from "../../base/log.ts";
import { Version } from "../api.ts";
import type { ContainerdClient } from "../client.ts";
import { ContainerdContent } from "../content.ts";
import { GarbageCollection } from "../garbage.ts";
import { StoredManifests } from "./manifests.ts";
import { PushLeases } from "./push_leases.ts";
import { ImageReader } from "./reader.ts";
import { ImageWriter } from "./writer.ts";

export interface ContainerdRegistryOptions {
  client: ContainerdClient;
  /** Marks this server's images, leases and writes. `[a-z0-9]`; another server of the namespace has another. */
  owner: string;
  log: Logger;
  /** Tags and digests that one repository may have. */
  maxNames?: number;
}

export interface ContainerdRegistry extends AsyncDisposable {
  images: {
    reader: ImageReader;
    repositories: ImageReader["repositories"];
    ready(options?: { signal?: AbortSignal }): Promise<void>;
    writer: ImageWriter;
  };
}

/** Nothing is asked of containerd yet. Dispose of it before the client. */
export function openContainerdRegistry(
  { client, owner, log, maxNames }: ContainerdRegistryOptions,
): ContainerdRegistry {
  const content = new ContainerdContent(client, owner);
  const garbage = new GarbageCollection(client, log);
  const manifests = new StoredManifests(content);
  const leases = new PushLeases({ client, content, owner });
  const reader = new ImageReader({ client, content, manifests });
  const parts = { client, content, manifests, reader, leases, garbage, owner, log, maxNames };
  const writer = new ImageWriter(parts);
  return {
    images: {
      reader,
      repositories: (options) => reader.repositories(options),
      ready: async ({ signal } = {}) => {
        await client.call(Version, {}, "Cannot read containerd's images", { signal });
      },
      writer,
    },
    async [Symbol.asyncDispose]() {
      await writer[Symbol.asyncDispose]();
      await garbage.settled();
    },
  };
}
