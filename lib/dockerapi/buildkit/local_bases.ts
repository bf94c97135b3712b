/**
 * Images of other registries' names that the server's registry has, because they were tagged, loaded or pulled: a
 * build takes them from there, as dockerd takes what it has.
 */
import { imagesOf } from "../../client/named_images.ts";
import { parseReference } from "../../oci/reference.ts";
import type { ImageAccess } from "../images/access.ts";
import { storedName } from "../images/names.ts";

/** Build contexts by the names that the Dockerfile has. */
export async function foreignBases(
  dockerfile: string,
  { store, own, pullHost }: ImageAccess,
  signal: AbortSignal,
): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const text of new Set(imagesOf(dockerfile))) {
    try {
      const { registry, digest } = parseReference(text);
      // Names without a registry are the server's own anyway.
      if (registry === undefined || own.includes(registry) || digest !== undefined) continue;
      const name = storedName(text, own);
      if (!await store.has(name, signal)) continue;
      found[text] = `docker-image://${pullHost}/${name.repository}:${name.tag}`;
    } catch {
      signal.throwIfAborted();
      // The server tells what is wrong with the name.
    }
  }
  return found;
}
