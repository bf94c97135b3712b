/**
 * Objects that were found damaged and are still under their keys. To everyone who asks for blobs they do not
 * exist, so that clients push them again and mirrors fetch them. The store records them, so that a restart does
 * not forget them; on a store that several processes write, each process learns of them within {@linkcode
 * STALE_MS}.
 */
import type { Logger } from "../base/log.ts";
import { DAMAGED, damagedKey, keyOfDamaged } from "./keys.ts";
import type { ObjectStore } from "./object_store.ts";

/** Milliseconds after which the records of other processes are read again. */
const STALE_MS = 60_000;
/** Sizes of blobs remembered. */
const REMEMBERED = 20_000;

export class Damage {
  #keys = new Set<string>();
  /** Sizes of objects whose bytes this process has checked. */
  #sizes = new Map<string, number>();
  #loading: Promise<void> | undefined;
  #loaded = -Infinity;

  constructor(private readonly objects: ObjectStore, private readonly log: Logger) {}

  /** True where `key` is known to be damaged. `size`: the size of the object under `key`, where it is known. */
  async has(key: string, size?: number): Promise<boolean> {
    if (this.#loaded < 0 || !this.objects.exclusive) await this.#fresh();
    if (this.#keys.size > 0 && this.#keys.has(key)) return true;
    if (size === undefined) return false;
    const right = this.#sizes.get(key);
    if (right === undefined || right === size) return false;
    await this.tell(key, `it has ${size} bytes, not ${right}`);
    return true;
  }

  /** Reads the records again where they are stale. Only the first reading is waited for. */
  async #fresh(): Promise<void> {
    if (performance.now() - this.#loaded < STALE_MS) return;
    this.#loading ??= this.#load().finally(() => this.#loading = undefined);
    if (this.#loaded < 0) await this.#loading;
    else {this.#loading.catch((error) =>
        this.log.warn("the list of damaged blobs cannot be read", { error })
      );}
  }

  async #load(): Promise<void> {
    const found = new Set<string>();
    for await (const entry of this.objects.list(DAMAGED, { brief: true })) {
      if ("key" in entry) found.add(keyOfDamaged(entry.key));
    }
    this.#keys = found;
    this.#loaded = performance.now();
  }

  async tell(key: string, message: string): Promise<void> {
    if (this.#keys.has(key)) return;
    this.#keys.add(key);
    this.log.error("a stored blob is damaged; another push replaces it", { key, message });
    await this.objects.put(damagedKey(key), new Uint8Array());
  }

  /** The object's bytes were verified, when they were written or read. */
  async good(key: string, size: number): Promise<void> {
    this.#sizes.delete(key);
    this.#sizes.set(key, size);
    if (this.#sizes.size > REMEMBERED) this.#sizes.delete(this.#sizes.keys().next().value!);
    if (this.#keys.size > 0) await this.gone(key);
  }

  /** The damaged object is no longer under its key. */
  async gone(key: string): Promise<void> {
    if (this.#keys.delete(key)) await this.objects.delete(damagedKey(key));
  }
}
