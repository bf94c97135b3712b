/** Cache keys: sha256 over a vertex's definition and the keys of what goes into it. */
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

/** Changed where the meaning of a step changes, so that older results are not taken for new ones. */
const GENERATION = 3;

function keyOf(kind: string, ...definition: unknown[]): string {
  return createHash("sha256").update(JSON.stringify([GENERATION, kind, ...definition])).digest(
    "hex",
  );
}

/** The key of an empty root. */
export const SCRATCH_KEY = keyOf("scratch");

/** Images are what their layers are. */
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

/** Known before the source is: leads to the content's key once that was found. */
export function copyLinkKey(vertex: CopyVertex, part: CopyPart, from: string): string {
  const { exclude, parents } = vertex;
  return keyOf("content", from, part.sources, exclude, parents && "folders too");
}

/** The same of what a mount binds from a tree whose content has a name. */
export function bindLinkKey(tree: string, path: string): string {
  return keyOf("bound", tree, path);
}

/** Of a note that a source of trees keeps. */
export function noteKey(name: string): string {
  return keyOf("note", name);
}

/** A COPY of one folder, whatever the folder holds. `path`: where it is in its tree. */
export function folderKey(vertex: CopyVertex, base: string, path: string): string {
  return keyOf("folder", base, path, vertex.exclude, ...copyDefinition(vertex));
}

/** Content of several places together. */
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

/** `contentOf` gives the key of what a mount binds; `epoch` is what the step sees as SOURCE_DATE_EPOCH. */
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
        // What a cache holds is no input: it makes a step fast, not different.
        return [
          "cache",
          mount.target,
          mount.id,
          mount.readOnly,
          // But what a step took out of somebody's own is for nobody else.
          ...mount.owner === undefined ? [] : [mount.owner],
        ];
      case "secret":
        // Its value is nobody's business: a changed secret does not make a step run again.
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
