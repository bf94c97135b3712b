/** COPY and ADD as steps: all of it copied, or what another one made of the same folder amended. */
import { SvcError } from "../../base/errors.ts";
import {
  amendFolder,
  type AmendTarget,
  bytesOf,
  changesOf,
  type CopiedEntry,
  FolderTarget,
  listFolder,
} from "../context/copied_folder.ts";
import type { RestOfFolder } from "../context/copy.ts";
import type { Tree } from "../context/tree.ts";
import { copyRest } from "../context/worker_client.ts";
import { type CopyVertex, isTree, type Source } from "../plan/graph.ts";
import { withSource } from "./content_keys.ts";
import type { KeptFolder } from "./copied_folders.ts";
import { excludeOf, ownerOf, pick, runCopyPart, runInline } from "./copy_step.ts";
import type { BuildState, Engine, Outcome } from "./engine_context.ts";
import { folderKey } from "./keys.ts";
import type { MountedRoot } from "./workspace.ts";

/** What one COPY is carried out with. */
export interface CopyRun {
  engine: Engine;
  build: BuildState;
  vertex: CopyVertex;
  base: Outcome | undefined;
  /** Key of the base. */
  baseKey: string;
  /** What a finished input gave. */
  resultOf: (source: Source) => Promise<Outcome | undefined>;
  signal: AbortSignal;
}

/** A COPY of nothing but one folder, what is in which is known. */
interface OneFolder {
  key: string;
  tree: Tree;
  /** Inside the tree. */
  path: string;
  entries: CopiedEntry[];
}

/** Fewer entries, and bytes, are copied without a thought. */
const FEW_ENTRIES = 200;
const FEW_BYTES = 2 << 20;

/** The name of the committed snapshot. */
export async function runCopy(run: CopyRun): Promise<string> {
  const folder = await oneFolder(run);
  const before = folder && await run.engine.copied.find(folder.key);
  return before && await amend(run, folder, before) || await copyAll(run, folder);
}

async function oneFolder(
  { build, vertex, baseKey, signal }: CopyRun,
): Promise<OneFolder | undefined> {
  const { parts: [part], parts, inline, parents, link } = vertex;
  const one = parts.length === 1 && inline.length === 0 && !parents && !link;
  if (!one || build.noCache || part.from !== "context" && !isTree(part.from)) return undefined;
  return await withSource(build, part.from, undefined, async (tree) => {
    if (!tree.known) return undefined;
    const selections = pick(tree, vertex, part).flatMap(({ selections }) => selections);
    // A pattern may name nothing.
    if (selections.length !== 1 || !selections[0].directory) return undefined;
    const [{ path }] = selections;
    const entries = await listFolder(tree, path, { exclude: excludeOf(vertex), signal });
    if (!entries || entries.length <= FEW_ENTRIES && bytesOf(entries) <= FEW_BYTES) {
      return undefined;
    }
    return { key: folderKey(vertex, baseKey, path), tree, path, entries };
  });
}

/** Undefined where it has to be copied after all. */
async function amend(
  { engine, vertex, base, signal }: CopyRun,
  { key, tree, path, entries }: OneFolder,
  before: KeptFolder,
): Promise<string | undefined> {
  const changes = changesOf(before, entries);
  if (!changes) return undefined;
  const { workspace, log } = engine;
  try {
    const { destination, chown, chmod } = vertex;
    const viewed = () => workspace.view(base?.snapshot);
    const owner = chown === undefined ? undefined : await ownerIn(viewed, chown);
    await using mounted = await workspace.writable(base?.snapshot, before.snapshot);
    const { root } = mounted;
    const target = { root, destination, owner, chmod, base: viewed, signal };
    const done = await amendFolder(tree, path, before, entries, changes, target);
    return done ? await mounted.commit(signal) : undefined;
  } catch (error) {
    signal.throwIfAborted();
    // It is gone since, or its base was made anew.
    if (error instanceof SvcError && ["not_found", "conflict"].includes(error.code)) {
      return undefined;
    }
    // What is kept of it may be damaged; copying everything tells what else is wrong.
    log.warn("a folder is copied whole", { reason: (error as Error).message });
    await engine.copied.forget(key);
    return undefined;
  }
}

/** Names are the base's: what the earlier copy put there does not count. */
async function ownerIn(viewed: AmendTarget["base"], chown: string) {
  await using base = await viewed();
  return await ownerOf(base.root, chown);
}

async function copyAll(run: CopyRun, folder: OneFolder | undefined): Promise<string> {
  const { engine, vertex, base, signal } = run;
  await using mounted = await engine.workspace.writable(base?.snapshot);
  const target = folder && new FolderTarget(mounted.root, vertex.destination);
  const rest = await copyParts(run, mounted);
  const touched = target?.touched();
  signal.throwIfAborted();
  const snapshot = await mounted.commit(signal, rest);
  if (folder) {
    const { key, entries } = folder;
    await engine.copied.keep(key, { snapshot, entries, touched: touched! });
  }
  return snapshot;
}

async function copyParts(
  { engine, build, vertex, resultOf, signal }: CopyRun,
  { root, upper }: MountedRoot,
): Promise<() => Promise<void>> {
  const owner = await ownerOf(root, vertex.chown);
  const { maxUnpackedBytes } = engine;
  const target = { root, owner, maxUnpackedBytes, signal };
  const rest: RestOfFolder[] = [];
  for (const part of vertex.parts) {
    const from = await resultOf(part.from);
    // What comes after it would not see the files; a stage's are there only as long as it is looked at.
    const last = part === vertex.parts.at(-1) && vertex.inline.length === 0;
    const later = last && (part.from === "context" || isTree(part.from));
    const copy = (tree: Tree) =>
      runCopyPart(vertex, part, tree, { ...target, ...later && { upper } });
    rest.push(...await withSource(build, part.from, from?.snapshot, copy));
  }
  if (vertex.inline.length > 0) {
    await using folder = await engine.workspace.temporary();
    await runInline(vertex, folder.path, target);
  }
  return () => copyRest(rest, { owner, chmod: vertex.chmod, signal });
}
