/**
 * COPY and ADD as steps. A step copies everything, or amends the result of an earlier COPY of the same
 * folder.
 */
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
import type { Tree } from "../context/tree.ts";
import { type CopyVertex, isTree, type Source } from "../plan/graph.ts";
import { withSource } from "./content_keys.ts";
import type { KeptFolder } from "./copied_folders.ts";
import { excludeOf, ownerOf, pick, runCopyPart, runInline } from "./copy_step.ts";
import type { BuildState, Engine, Outcome } from "./engine_context.ts";
import { folderKey } from "./keys.ts";

/** What a COPY works with. */
export interface CopyRun {
  engine: Engine;
  build: BuildState;
  vertex: CopyVertex;
  base: Outcome | undefined;
  /** Key of the base. */
  baseKey: string;
  /** The outcome of an input that has finished. */
  resultOf: (source: Source) => Promise<Outcome | undefined>;
  signal: AbortSignal;
}

/** A COPY of exactly one folder, whose entries are known without a look at the files. */
interface OneFolder {
  key: string;
  tree: Tree;
  /** Path inside the tree. */
  path: string;
  entries: CopiedEntry[];
}

/** Smaller folders are copied whole: an earlier result would save nothing. */
const FEW_ENTRIES = 200;
const FEW_BYTES = 2 << 20;

/** Gives the name of the committed snapshot. */
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
    // A pattern may match nothing.
    if (selections.length !== 1 || !selections[0].directory) return undefined;
    const [{ path }] = selections;
    const entries = await listFolder(tree, path, { exclude: excludeOf(vertex), signal });
    if (!entries || entries.length <= FEW_ENTRIES && bytesOf(entries) <= FEW_BYTES) {
      return undefined;
    }
    return { key: folderKey(vertex, baseKey, path), tree, path, entries };
  });
}

/** Undefined where everything has to be copied. */
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
    // The earlier snapshot is gone, or lies on another base.
    if (error instanceof SvcError && ["not_found", "conflict"].includes(error.code)) {
      return undefined;
    }
    // The record may be damaged. Copying everything tells whether something else is wrong.
    log.warn("a folder is copied as a whole", { reason: (error as Error).message });
    await engine.copied.forget(key);
    return undefined;
  }
}

/** The owner for --chown, by the base's passwd; a passwd that the earlier COPY brought does not count. */
async function ownerIn(viewed: AmendTarget["base"], chown: string) {
  await using base = await viewed();
  return await ownerOf(base.root, chown);
}

async function copyAll(run: CopyRun, folder: OneFolder | undefined): Promise<string> {
  const { engine, vertex, base, signal } = run;
  await using mounted = await engine.workspace.writable(base?.snapshot);
  const target = folder && new FolderTarget(mounted.root, vertex.destination);
  await copyParts(run, mounted.root);
  const touched = target?.touched();
  signal.throwIfAborted();
  const snapshot = await mounted.commit(signal);
  if (folder) {
    const { key, entries } = folder;
    await engine.copied.keep(key, { snapshot, entries, touched: touched! });
  }
  return snapshot;
}

async function copyParts(
  { engine, build, vertex, resultOf, signal }: CopyRun,
  root: string,
): Promise<void> {
  const owner = await ownerOf(root, vertex.chown);
  const { maxUnpackedBytes } = engine;
  const target = { root, owner, maxUnpackedBytes, signal };
  for (const part of vertex.parts) {
    const from = await resultOf(part.from);
    const copy = (tree: Tree) => runCopyPart(vertex, part, tree, target);
    await withSource(build, part.from, from?.snapshot, copy);
  }
  if (vertex.inline.length === 0) return;
  await using folder = await engine.workspace.temporary();
  await runInline(vertex, folder.path, target);
}
