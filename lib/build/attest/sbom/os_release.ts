/** Finds an image's distribution: os-release(5). */
import type { Tree } from "./tree.ts";

export interface Distribution {
  /** "debian". */
  id: string;
  /** "12". */
  version: string;
}

export async function distributionOf(tree: Tree): Promise<Distribution> {
  const text = await tree.read("/etc/os-release") ?? await tree.read("/usr/lib/os-release") ?? "";
  const field = (name: string) =>
    new RegExp(`^${name}=["']?([^"'\\n]*)`, "m").exec(text)?.[1].trim() ?? "";
  return { id: field("ID").toLowerCase(), version: field("VERSION_ID") };
}
