/** Cache keys: sha256 over a vertex's definition and the keys of its inputs. */
import { createHash } from "node:crypto";
import { chainIDs } from "../../snapshot/unpack.ts";
import type {
  CopyPart,
  CopyVertex,
  ImageVertex,
  RunMount,
  RunVertex,
  WorkdirVertex,
} from "../plan/graph.ts";

/** Raised when the meaning of a step changes, so that older results are not used. */
const GENERATION = 3;

function keyOf(kind: string, ...definition: unknown[]): string {
  return createHash("sha256").update(JSON.stringify([GENERATION, kind, ...definition])).digest(
    "hex",
  );
}

/** The key of an empty root. */
export const SCRATCH_KEY = keyOf("scratch");

/** The key of an image: its layers decide. */
export function imageKey(vertex: ImageVertex): string {
  const { config, apart } = vertex.image;
  const top = chainIDs(config.rootfs.diff_ids, apart).at(-1);
  return top === undefined ? SCRATCH_KEY : keyOf("image", top);
}

export function workdirKey(vertex: WorkdirVertex, base: string): string {
  return keyOf("workdir", base, vertex.path, vertex.user);
}

/** `content`: the key of what is copied. */
export function copyKey(vertex: CopyVertex, base: string, content: string): string {
  return keyOf("copy", base, content, ...copyDefinition(vertex));
}

/** The key of a link to the content key of a part. It is known before the source's files are. */
export function copyLinkKey(vertex: CopyVertex, part: CopyPart, from: string): string {
  const { exclude, parents } = vertex;
  return keyOf("content", from, part.sources, exclude, parents && "folders too");
}

/** The key of a link to the content key of a bound path, for a tree whose content has a name. */
export function bindLinkKey(tree: string, path: string): string {
  return keyOf("bound", tree, path);
}

/** The key of a note that a source of trees keeps. */
export function noteKey(name: string): string {
  return keyOf("note", name);
}

/** The key of a COPY of one folder, whatever its contents. `path`: the folder's path in its tree. */
export function folderKey(vertex: CopyVertex, base: string, path: string): string {
  return keyOf("folder", base, path, vertex.exclude, ...copyDefinition(vertex));
}

/** One content key for several contents. */
export function joinedKey(contents: string[]): string {
  return contents.length === 1 ? contents[0] : keyOf("joined", contents);
}

function copyDefinition(vertex: CopyVertex): unknown[] {
  return [
    vertex.destination,
    vertex.inline.map(({ name, data }) => [name, data]),
    vertex.chown ?? null,
    vertex.chmod ?? null,
    vertex.parents,
    vertex.link,
    vertex.parts.map((part) => [part.unpack, part.sources.length]),
  ];
}

/**
 * The key of a RUN. `contentOf` gives the content key of a bind mount; `epoch` is the SOURCE_DATE_EPOCH that
 * the step sees.
 */
export function runKey(
  vertex: RunVertex,
  base: string,
  contentOf: (mount: RunMount) => string,
  epoch?: number,
): string {
  const mounts = vertex.mounts.map((mount) => {
    switch (mount.type) {
      case "tmpfs":
        return ["tmpfs", mount.target, mount.size ?? null];
      case "bind":
        return ["bind", mount.target, mount.source, contentOf(mount)];
      case "cache":
        // A cache's content is not part of the key: it makes a step faster, not different.
        return [
          "cache",
          mount.target,
          mount.id,
          mount.readOnly,
          // The owner is part of the key: nobody else gets a result made from an owner's cache.
          ...mount.owner === undefined ? [] : [mount.owner],
        ];
      case "secret":
        // The secret's value is not part of the key: a changed secret does not run the step again.
        return [
          "secret",
          mount.target ?? null,
          mount.env ?? null,
          mount.id,
          mount.mode,
          mount.uid,
          mount.gid,
        ];
      case "ssh":
        return ["ssh", mount.target, mount.id, mount.mode, mount.uid, mount.gid];
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
    vertex.needs,
    vertex.hosts,
    mounts,
    [os, architecture, variant ?? ""],
    epoch,
    ...vertex.devices.map(({ name }) => name),
  );
}
