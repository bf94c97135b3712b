/** Claims and condemnations as objects of the store: immutable lists of keys; see guard.ts. */
import { SvcError } from "../../base/errors.ts";
import type { CallOptions, ObjectStore } from "../object_store.ts";
import { eachOf } from "./each.ts";

export interface NoteBody {
  /** A lease for pushes, or the intent of one publication. */
  kind?: "lease" | "intent";
  keys: string[];
}

export interface Note {
  name: string;
  /** When the note was written, by the store's clock. */
  modified: Date;
  /** When this process first saw it, by its own clock. */
  seen: number;
  kind?: NoteBody["kind"];
  keys: ReadonlySet<string>;
}

/** Notes that are read at once. */
const READS = 16;

const encode = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));

/** The notes under one prefix. A note never changes, so each is read once and remembered. */
export class Notes {
  #read = new Map<string, Note>();
  #process = crypto.randomUUID();
  #count = 0;

  constructor(
    private readonly objects: ObjectStore,
    private readonly prefix: string,
    private readonly now: () => number,
  ) {}

  /** Durable when it resolves. */
  async write(body: NoteBody, call: CallOptions = {}): Promise<string> {
    const name = `${this.prefix}${this.#process}-${(this.#count++).toString(36)}`;
    await this.objects.put(name, encode(body), call);
    return name;
  }

  /** When the note was written, by the store's clock; undefined: it is gone. */
  async written(name: string, call: CallOptions = {}): Promise<Date | undefined> {
    return (await this.objects.stat(name, call))?.modified;
  }

  async remove(name: string, call: CallOptions = {}): Promise<void> {
    this.#read.delete(name);
    if (this.objects.deleteAll) await this.objects.deleteAll([name], call);
    else await this.objects.delete(name, call);
  }

  /** All notes that exist at some moment after the call. */
  async all(call: CallOptions = {}): Promise<Note[]> {
    const found: Note[] = [];
    const names = new Set<string>();
    await eachOf(this.objects.list(this.prefix, call), READS, async (entry) => {
      if (!("key" in entry)) return;
      names.add(entry.key);
      const note = this.#read.get(entry.key) ?? await this.#load(entry.key, entry.modified, call);
      if (note) found.push(note);
    });
    for (const name of this.#read.keys()) if (!names.has(name)) this.#read.delete(name);
    return found;
  }

  async #load(name: string, modified: Date, call: CallOptions): Promise<Note | undefined> {
    const body = await this.objects.get(name, call);
    if (!body) return undefined;
    const text = await new Response(body.stream() as BodyInit).text();
    let parsed: Partial<NoteBody> | undefined;
    try {
      parsed = JSON.parse(text);
    } catch {
      // reported below
    }
    if (!Array.isArray(parsed?.keys)) {
      throw new SvcError("internal", `Cannot read ${name}: it is not a list of keys`);
    }
    const { kind, keys } = parsed;
    const note = { name, modified, seen: this.now(), kind, keys: new Set(keys) };
    this.#read.set(name, note);
    return note;
  }
}
