/** What the store holds, counted. */
import type { StorageUsage } from "../api/storage.ts";
import { BLOBS, firstKey, MANIFESTS, QUARANTINE, REPOS, RESCUED, TAGS } from "./keys.ts";
import type { CallOptions, ObjectStore } from "./object_store.ts";

export async function contentUsage(
  objects: ObjectStore,
  call: CallOptions = {},
): Promise<StorageUsage["content"]> {
  const count = async (prefix: string, brief: boolean) => {
    const total = { count: 0, bytes: 0 };
    let last: string | undefined;
    for await (const entry of objects.list(prefix, { ...call, brief })) {
      if (!("key" in entry)) continue;
      const first = prefix === QUARANTINE ? entry.key : firstKey(entry.key);
      if (first !== last) total.count++;
      last = first;
      total.bytes += entry.size;
    }
    return total;
  };
  const uploads = { count: 0, bytes: 0 };
  for await (const { size } of objects.uploads.list(call)) {
    uploads.count++;
    uploads.bytes += size;
  }
  const [blobs, copies, quarantined] = [
    await count(BLOBS, false),
    await count(RESCUED, false),
    await count(QUARANTINE, false),
  ];
  return {
    repositories: (await count(REPOS, true)).count,
    manifests: (await count(MANIFESTS, true)).count,
    tags: (await count(TAGS, true)).count,
    blobs: blobs.count,
    blobBytes: blobs.bytes,
    copies: copies.count,
    copyBytes: copies.bytes,
    uploads: uploads.count,
    uploadBytes: uploads.bytes,
    quarantined: quarantined.count,
    quarantinedBytes: quarantined.bytes,
  };
}
