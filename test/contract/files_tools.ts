/** What the parts of the contract of files share. */
import assert from "node:assert/strict";
import {
  type FileNode,
  type FolderEntry,
  Listing,
  type NodeWriter,
  OPEN,
  type OpenFile,
} from "../../lib/wire/files/node.ts";

export interface At {
  /** The folder on the disk. */
  path: string;
  root: FileNode;
  writer: NodeWriter;
}

export const bytes = (text: string) => new TextEncoder().encode(text);
const errno = (code: number) => (error: unknown) => (error as { errno?: number }).errno === code;
export const fails = (code: number, work: () => unknown) =>
  assert.rejects(async () => await work(), errno(code));

export async function readAll(file: OpenFile, size = 1 << 20): Promise<string> {
  const into = new Uint8Array(size);
  return new TextDecoder().decode(into.subarray(0, await file.read(0, into)));
}

export async function make(
  writer: NodeWriter,
  name: string,
  text = "",
  mode = 0o644,
): Promise<void> {
  const { node, file } = await writer.create(name, OPEN.RDWR | OPEN.EXCL, mode);
  await file.write!(0, bytes(text));
  await file.close();
  node.close();
}

export async function content(root: FileNode, name: string): Promise<string> {
  const node = await root.walk(name);
  const file = await node.open(0);
  const text = await readAll(file);
  await file.close();
  node.close();
  return text;
}

/** All names, in parts of at most `most`. */
export async function list(
  node: FileNode,
  most = Infinity,
  between = () => {},
): Promise<FolderEntry[]> {
  const folder = await node.list();
  const listing = new Listing(folder, node.id);
  const entries: FolderEntry[] = [];
  for (let at = 0n;;) {
    const before = entries.length;
    await listing.take(at, (entry) => {
      if (entries.length - before >= most) return false;
      entries.push(entry);
      return true;
    });
    if (entries.length === before) break;
    at = entries.at(-1)!.next;
    between();
  }
  await folder.close();
  return entries.filter(({ name }) => name !== "." && name !== "..");
}

export const names = async (node: FileNode) => (await list(node)).map(({ name }) => name).sort();

/** A test with a folder of its own. */
export type FilesTest = (what: string, fn: (at: At) => Promise<void>) => void;
