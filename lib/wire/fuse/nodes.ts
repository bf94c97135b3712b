/** The nodes that a kernel knows, by its numbers for them. */
import { type FileNode } from "../files/node.ts";
import { entryReply, type Reply } from "./protocol.ts";
import { ERRNO, FileError } from "../files/stat.ts";

export const ROOT = 1n;
/** Milliseconds of caching where nothing ever changes, or changes are told. */
export const FOREVER_MS = 86_400_000;

interface Known {
  node: FileNode;
  /** How often it was returned to the kernel. */
  lookups: bigint;
}

export class KernelNodes {
  #known = new Map<bigint, Known>();
  #keepMs: number;
  #root: bigint;

  /** `keepMs`: for which the kernel may keep what is not known to be true. The caller closes the root. */
  constructor(root: FileNode, keepMs: number) {
    this.#known.set(ROOT, { node: root, lookups: 1n });
    this.#keepMs = keepMs;
    this.#root = root.id;
  }

  /** The kernel's number for a node. Numbers 0 and 1 are taken: no node, and the root. */
  number(id: bigint): bigint {
    return id === this.#root ? ROOT : BigInt.asUintN(64, id + ROOT + 1n) || ROOT + 1n;
  }

  has(number: bigint): boolean {
    return this.#known.has(number);
  }

  get(number: bigint): FileNode {
    const known = this.#known.get(number);
    if (!known) throw new FileError(ERRNO.ESTALE);
    return known.node;
  }

  /** The number is returned to the kernel once more. */
  again(number: bigint): void {
    const known = this.#known.get(number);
    if (known) known.lookups++;
  }

  /** Returns a folder's entry to the kernel; its node stays open until the kernel forgets it. */
  async entry(folder: FileNode, name: string, node: FileNode, more = 0): Promise<Reply> {
    try {
      const asked = node.takeStat?.() ?? await node.stat();
      const number = this.number(node.id);
      const known = this.#known.get(number);
      if (!known) this.#known.set(number, { node, lookups: 1n });
      else {
        known.lookups++;
        known.node.join?.(node);
        if (known.node !== node) node.close();
      }
      const sure = this.get(number).known?.();
      return entryReply(number, node.id, sure ?? asked, {
        entry: folder.knows?.(name, node.id) ? FOREVER_MS : this.#keepMs,
        // Mode and owner of what was just made are sure, which the kernel needs; it is told when all of them are.
        attributes: sure || asked.guess ? FOREVER_MS : this.#keepMs,
      }, more);
    } catch (error) {
      node.close();
      throw error;
    }
  }

  forget(number: bigint, times: bigint): void {
    const known = this.#known.get(number);
    if (!known || number === ROOT) return;
    known.lookups -= times;
    if (known.lookups > 0n) return;
    this.#known.delete(number);
    known.node.close();
  }

  closeAll(): void {
    for (const [number, { node }] of this.#known) if (number !== ROOT) node.close();
  }
}
