/** One package that a scanner found in an image. */
import type { Tree } from "./tree.ts";

export interface FoundPackage {
  name: string;
  version: string;
  /** "pkg:deb/debian/bash@5.2?arch=amd64". */
  purl: string;
  /** Path of the record in the image. */
  source: string;
  /** License as the record gives it, in any form. */
  license?: string;
  supplier?: string;
}

export type Scanner = (tree: Tree, signal: AbortSignal) => Promise<FoundPackage[]>;

/** Percent-encoding of the package URL specification. */
const encodePurl = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16)}`)
    .replaceAll("%3A", ":");

/** `qualifiers` that are undefined or empty are left out. */
export function purl(
  type: string,
  namespace: string | undefined,
  name: string,
  version: string,
  qualifiers: Record<string, string | undefined> = {},
): string {
  const parts = [
    type,
    ...(namespace ? namespace.split("/") : []).map(encodePurl),
    encodePurl(name),
  ];
  const query = Object.entries(qualifiers).filter(([, value]) => value)
    .sort(([a], [b]) => a < b ? -1 : 1)
    .map(([key, value]) => `${key}=${encodePurl(value!)}`).join("&");
  return `pkg:${parts.join("/")}@${encodePurl(version)}${query ? `?${query}` : ""}`;
}
