/**
 * Reads folders and small files in a thread of its own, by calls that wait: each takes a small part of
 * what it takes to be asked for on the event loop and to be told of. What was read goes into two buffers
 * that take turns, so that memory does not grow with the store. Between pages nothing is open.
 */
/// <reference lib="deno.worker" />
import { join } from "node:path";
import { eachEntry } from "../../../lib/sys/directory.ts";
import { hasCode } from "../../../lib/sys/errno.ts";
import * as fd from "../../../lib/sys/fd.ts";
import { O, S_IFDIR, S_IFMT, S_IFREG, tryLstat } from "../../../lib/sys/files.ts";
import type { ScanAsk, ScannedPage, ScanTell } from "./scan_wire.ts";

/** Bytes after which a page ends. */
const PAGE = 64 * 1024;
/** Larger buffers, of folders or objects of unusual size, are not kept. */
const KEPT = 16 * PAGE;
/** Bytes that a file is read into at least. */
const ROOM = 8 * 1024;
/** A file that takes longer comes from a disk that is slow to answer: then many are asked for at once. */
const SLOW_MS = 1;
const TOGETHER = 32;

const scope = self as unknown as DedicatedWorkerGlobalScope;
const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** By character code: 1 for what keys are made of. */
const IN_KEYS = new Uint8Array(256);
for (let code = 0; code < 128; code++) {
  if (/[A-Za-z0-9._:+%-]/.test(String.fromCharCode(code))) IN_KEYS[code] = 1;
}

/** Others' files and folders have nothing to do with objects. */
function isInKeys(name: Uint8Array, start: number, end: number): boolean {
  for (let at = start; at < end; at++) if (IN_KEYS[name[at]] === 0) return false;
  return true;
}

/** A buffer that grows while it is filled. */
class Draft {
  #bytes = new Uint8Array(2 * PAGE);
  length = 0;

  /** At least `size` bytes behind what is there. */
  room(size: number): Uint8Array<ArrayBuffer> {
    if (this.length + size > this.#bytes.length) {
      const larger = new Uint8Array(Math.max(2 * this.#bytes.length, this.length + size));
      larger.set(this.#bytes.subarray(0, this.length));
      this.#bytes = larger;
    }
    return this.#bytes.subarray(this.length);
  }

  add(bytes: Uint8Array): void {
    this.room(bytes.length).set(bytes);
    this.length += bytes.length;
  }

  /** A key: a folder's prefix, and a name from `start` to `end`. */
  addKey(prefix: Uint8Array, name: Uint8Array, start: number, end: number): void {
    const room = this.room(prefix.length + end - start + 1);
    room.set(prefix);
    let at = prefix.length;
    for (let from = start; from < end; from++) room[at++] = name[from];
    room[at++] = 0;
    this.length += at;
  }

  /** What was added as a page; the next begins in `spare`, where there is one. */
  page(keysAt: number, sizes: number[] | undefined, spare: ArrayBuffer | undefined): ScannedPage {
    const { buffer } = this.#bytes;
    const end = this.length;
    const kept = spare && spare.byteLength <= KEPT ? spare : undefined;
    this.#bytes = new Uint8Array(kept ?? new ArrayBuffer(2 * PAGE));
    this.length = 0;
    return { type: "page", buffer, sizes, keysAt, end };
  }

  text(): string {
    return decoder.decode(this.#bytes.subarray(0, this.length));
  }
}

/** Folders of a store hold nothing but files and folders; this is for what others put there. */
function kindAt(path: string): "file" | "folder" | "other" {
  const type = (tryLstat(path)?.mode ?? 0) & S_IFMT;
  return type === S_IFREG ? "file" : type === S_IFDIR ? "folder" : "other";
}

/** Adds the keys of one folder's files; gives the prefixes of the folders in it. */
function listFolder(root: string, prefix: string, keys: Draft): string[] {
  const folder = join(root, prefix);
  const folders: string[] = [];
  const prefixBytes = encoder.encode(prefix);
  try {
    eachEntry(folder, ({ bytes, start, end, kind }) => {
      if (!isInKeys(bytes, start, end)) return;
      const name = () => decoder.decode(bytes.subarray(start, end));
      const is = kind === "unknown" ? kindAt(join(folder, name())) : kind;
      if (is === "file") keys.addKey(prefixBytes, bytes, start, end);
      else if (is === "folder") folders.push(`${prefix}${name()}/`);
    });
  } catch (error) {
    // It went away meanwhile, or there was none.
    if (!hasCode(error, "ENOENT", "ENOTDIR")) throw error;
  }
  return folders;
}

/** Adds what a file holds; its size, or undefined for one that went away. */
function readNow(path: string, to: Draft): number | undefined {
  const before = to.length;
  let file: number;
  try {
    file = fd.open(path, O.RDONLY);
  } catch (error) {
    if (hasCode(error, "ENOENT", "ENOTDIR")) return undefined;
    throw error;
  }
  try {
    for (;;) {
      const got = fd.read(file, to.room(ROOM), path);
      if (got === 0) return to.length - before;
      to.length += got;
    }
  } finally {
    fd.close(file);
  }
}

async function readTogether(paths: string[], to: Draft): Promise<(number | undefined)[]> {
  const parts = await Promise.all(paths.map((path) =>
    Deno.readFile(path).catch((error) => {
      const { NotFound, NotADirectory } = Deno.errors;
      if (!(error instanceof NotFound || error instanceof NotADirectory)) throw error;
    })
  ));
  for (const part of parts) if (part) to.add(part);
  return parts.map((part) => part?.length);
}

/** The buffer that came with the last question. */
let spare: ArrayBuffer | undefined;

/** Pages of the objects of these keys. */
async function* withContents(root: string, keys: string[]): AsyncGenerator<ScannedPage> {
  const draft = new Draft();
  let found: string[] = [];
  let sizes: number[] = [];
  const add = (key: string, size: number | undefined) => {
    if (size === undefined) return;
    found.push(key, "\0");
    sizes.push(size);
  };
  const page = () => {
    const keysAt = draft.length;
    draft.add(encoder.encode(found.join("")));
    const made = draft.page(keysAt, sizes, spare);
    spare = undefined;
    found = [];
    sizes = [];
    return made;
  };
  for (let at = 0; at < keys.length;) {
    const began = performance.now();
    add(keys[at], readNow(join(root, keys[at]), draft));
    at++;
    if (performance.now() - began >= SLOW_MS) {
      const some = keys.slice(at, at + TOGETHER);
      const read = await readTogether(some.map((key) => join(root, key)), draft);
      for (const [index, size] of read.entries()) add(some[index], size);
      at += some.length;
    }
    if (draft.length >= PAGE) yield page();
  }
  if (found.length > 0) yield page();
}

async function* pages(root: string, below: string, bytes: boolean): AsyncGenerator<ScannedPage> {
  const draft = new Draft();
  const waiting = [below];
  for (let prefix = waiting.pop(); prefix !== undefined; prefix = waiting.pop()) {
    for (const folder of listFolder(root, prefix, draft)) waiting.push(folder);
    if (draft.length < PAGE && waiting.length > 0) continue;
    if (!bytes) {
      const page = draft.page(0, undefined, spare);
      spare = undefined;
      yield page;
      continue;
    }
    const keys = draft.text().split("\0");
    keys.pop();
    draft.length = 0;
    yield* withContents(root, keys);
  }
}

let reading: AsyncGenerator<ScannedPage>;

scope.onmessage = async ({ data }: MessageEvent<ScanAsk>) => {
  if (data.type === "begin") reading = pages(data.root, data.prefix, data.bytes);
  else spare = data.spare;
  let tell: ScanTell;
  try {
    const next = await reading.next();
    tell = next.done ? { type: "end" } : next.value;
  } catch (error) {
    tell = { type: "failed", message: (error as Error).message };
  }
  scope.postMessage(tell, tell.type === "page" ? [tell.buffer] : []);
};
