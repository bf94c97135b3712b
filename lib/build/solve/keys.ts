/** Cache keys: sha256 over a vertex's definition and the keys of what goes into it. */
import { createHash } from "node:crypto";
import { chainIDs } from "../../snapshot/unpack.ts";
import type { CopyVertex, ImageVertex, RunVertex, Source, WorkdirVertex } from "../plan/graph.ts";

/** Changed where the meaning of a step changes, so that older results are not taken for new ones. */
const GENERATION = 1;

function keyOf(kind: string, ...definition: unknown[]): string {
  return createHash("sha256").update(JSON.stringify([GENERATION, kind, ...definition])).digest(
    "hex",
  );
}

/** The key of an empty root. */
export const SCRATCH_KEY = keyOf("scratch");

/** Images are what their layers are. */
export function imageKey(vertex: ImageVertex): string {
  const top = chainIDs(vertex.image.config.rootfs.diff_ids).at(-1);
  return top === undefined ? SCRATCH_KEY : keyOf("image", top);
}

export function workdirKey(vertex: WorkdirVertex, base: string, epoch?: number): string {
  return keyOf("workdir", base, vertex.path, vertex.user, epoch);
}

/** `content`: the key of what is copied. */
export function copyKey(vertex: CopyVertex, base: string, content: string, epoch?: number): string {
  return keyOf("copy", base, content, ...copyDefinition(vertex), epoch);
}

/** Known before the source is: leads to the content's key once that was found. */
export function copyLinkKey(vertex: CopyVertex, from: string): string {
  return keyOf("content", from, vertex.sources, vertex.exclude, vertex.parents);
}

function copyDefinition(vertex: CopyVertex): unknown[] {
  return [
    vertex.destination,
    vertex.inline.map(({ name, data }) => [name, data]),
    vertex.chown ?? null,
    vertex.chmod ?? null,
    vertex.parents,
    vertex.unpack,
    vertex.sources.length + vertex.inline.length > 1,
  ];
}

/**
 * `inputOf` gives the key of each mount's source: of the paths it binds where the source is the context,
 * else of the vertex.
 */
export function runKey(
  vertex: RunVertex,
  base: string,
  inputOf: (from: Source, path: string) => string,
  epoch?: number,
): string {
  const mounts = vertex.mounts.map((mount) => {
    switch (mount.type) {
      case "tmpfs":
        return ["tmpfs", mount.target, mount.size ?? null];
      case "bind":
        return ["bind", mount.target, mount.source, inputOf(mount.from, mount.source)];
      case "cache":
        // What a cache holds is no input: it makes a step fast, not different.
        return ["cache", mount.target, mount.id, mount.readOnly];
    }
  });
  const { os, architecture, variant } = vertex.platform;
  return keyOf(
    "run",
    base,
    vertex.args,
    vertex.script?.data ?? null,
    vertex.env,
    vertex.workingDir,
    vertex.user,
    vertex.network,
    mounts,
    [os, architecture, variant ?? ""],
    epoch,
  );
}
