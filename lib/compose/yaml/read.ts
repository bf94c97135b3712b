/**
 * Reads the text of a Compose file into trees, one for each of its documents. Bounded in time and memory: by the
 * size of the text, by its depth, and by how many values its aliases may stand for.
 */
import { SvcError } from "../../base/errors.ts";
import { isTimestamp, resolveScalar } from "./scalar.ts";
import {
  isList,
  isMapping,
  type List,
  type Mapping,
  type Place,
  setPlace,
  type Value,
} from "./tree.ts";

type Yaml = typeof import("../../client/yaml.ts");
type Node = import("yaml").Node;
type Pair = import("yaml").Pair<Node, Node | null>;

/** Bytes of one file; a file of this size takes some seconds. */
export const MOST_BYTES = 2 * 1024 * 1024;
const MOST_DEPTH = 200;
/** Values of one document with its aliases written out. */
const MOST_VALUES = 300_000;

/** One document of a file. */
export interface Document {
  root: Value;
  /** Where the root begins. */
  place: Place;
  /** Paths of values tagged `!reset` or `!override`: what files before this one said there is dropped. */
  cleared: string[][];
}

export function invalid(place: Place | string, what: string, help?: string): SvcError {
  const at = typeof place === "string" ? place : `${place.file}:${place.line}`;
  return new SvcError("compose_invalid", `Cannot read ${at}: ${what}`, { ...(help && { help }) });
}

class Reader {
  readonly cleared: string[][] = [];
  #values = 0;
  readonly #anchors = new Map<string, Node>();
  /** Anchors that are being written out: one that is met again refers to itself. */
  readonly #open = new Set<Node>();

  constructor(
    readonly yaml: Yaml,
    readonly file: string,
    readonly lineOf: (offset: number) => number,
  ) {}

  place(node: { range?: readonly number[] | null } | null | undefined, above: Place): Place {
    const start = node?.range?.[0];
    return start === undefined ? above : { file: this.file, line: this.lineOf(start) };
  }

  /** undefined: the value is tagged `!reset`, as if it were not written. */
  value(node: Node | null, path: string[], above: Place): Value | undefined {
    const place = this.place(node, above);
    if (++this.#values > MOST_VALUES) {
      throw invalid(place, `it stands for more than ${MOST_VALUES} values`);
    }
    if (path.length > MOST_DEPTH) throw invalid(place, `nested deeper than ${MOST_DEPTH} levels`);
    if (node === null) return null;
    if (this.yaml.isAlias(node)) return this.#alias(node.source, path, place);
    const { anchor, tag } = node as { anchor?: string; tag?: string };
    if (anchor) this.#anchors.set(anchor, node);
    if (tag === "!reset" || tag === "!override") this.cleared.push(path);
    if (tag === "!reset") return undefined;
    if (this.yaml.isMap(node)) return this.#mapping(node.items as Pair[], path, place);
    if (this.yaml.isSeq(node)) return this.#list(node.items as Node[], path, place);
    return this.#scalar(node, place);
  }

  #alias(name: string, path: string[], place: Place): Value | undefined {
    const node = this.#anchors.get(name);
    if (!node) throw invalid(place, `there is no anchor ${name} before this alias`);
    if (this.#open.has(node)) throw invalid(place, `anchor ${name} refers to itself`);
    this.#open.add(node);
    const value = this.value(node, path, place);
    this.#open.delete(node);
    return value;
  }

  #scalar(node: Node, place: Place): Value {
    const { type, source, value, tag } = node as {
      type?: string;
      source?: string;
      value?: unknown;
      tag?: string;
    };
    const text = typeof value === "string" ? value : source ?? "";
    if (tag === "tag:yaml.org,2002:str" || tag === "!") return text;
    if (type !== "PLAIN" && tag === undefined) return text;
    if (isTimestamp(text) && tag === undefined) {
      throw invalid(place, `${text} is a date, which no field takes`, "put it in quotes");
    }
    return resolveScalar(text);
  }

  #list(items: Node[], path: string[], place: Place): List {
    const list: List = [];
    for (const [index, item] of items.entries()) {
      const value = this.value(item, [...path, String(index)], place);
      if (value === undefined) continue;
      setPlace(list, list.length, this.place(item, place));
      list.push(value);
    }
    return list;
  }

  #mapping(pairs: Pair[], path: string[], place: Place): Mapping {
    const result: Mapping = new Map();
    const merged: Mapping[] = [];
    const lines = new Map<string, number>();
    for (const { key: keyNode, value: node } of pairs) {
      const at = this.place(keyNode, place);
      const key = this.#key(keyNode, path, at);
      const before = lines.get(key);
      if (before !== undefined) {
        throw invalid(at, `key ${key} is there already, in line ${before}`);
      }
      lines.set(key, at.line);
      if (key === "<<" && (keyNode as { type?: string }).type === "PLAIN") {
        merged.push(...this.#sources(node, path, at));
        continue;
      }
      const value = this.value(node, [...path, key], at);
      if (value === undefined) continue;
      result.set(key, value);
      setPlace(result, key, at);
    }
    // What the mapping itself says comes before what it merges.
    for (const source of merged) {
      for (const [key, value] of source) {
        if (!lines.has(key) && !result.has(key)) result.set(key, value);
      }
    }
    return result;
  }

  #key(node: Node, path: string[], place: Place): string {
    const value = this.yaml.isAlias(node)
      ? this.#alias(node.source, path, place)
      : node && this.#scalar(node, place);
    if (typeof value === "string") return value;
    const within = path.length > 0 ? path.join(".") : "the top level";
    throw invalid(
      place,
      `a key of ${within} is not text: ${
        JSON.stringify((node as { source?: string })?.source ?? "")
      }`,
      "put it in quotes",
    );
  }

  /** The mappings that a merge key (`<<`) names. */
  #sources(node: Node | null, path: string[], place: Place): Mapping[] {
    const value = this.value(node, path, place) ?? null;
    const list = isList(value) ? value : [value];
    for (const item of list) if (!isMapping(item)) throw invalid(place, "<< takes mappings");
    return list as Mapping[];
  }
}

/** The documents of `text`. Throws `compose_invalid` with file and line. */
export async function readYaml(text: string, file: string): Promise<Document[]> {
  if (text.length > MOST_BYTES) throw invalid(file, `it is larger than ${MOST_BYTES} bytes`);
  const yaml = await import("../../client/yaml.ts");
  const lines = new yaml.LineCounter();
  let documents;
  try {
    documents = yaml.parseAllDocuments(text.replace(/^\ufeff/, ""), {
      lineCounter: lines,
      prettyErrors: false,
      schema: "failsafe",
      uniqueKeys: false,
      logLevel: "silent",
      strict: false,
    });
  } catch (error) {
    if (error instanceof RangeError) throw invalid(file, "it is nested too deeply");
    throw error;
  }
  if (!Array.isArray(documents)) return [];
  return documents.map((document): Document => {
    const [error] = document.errors;
    if (error && /call stack/.test(error.message)) throw invalid(file, "it is nested too deeply");
    if (error) {
      const line = lines.linePos(error.pos[0]).line;
      throw invalid({ file, line }, error.message.toLowerCase().replace(/\.$/, ""));
    }
    const reader = new Reader(yaml, file, (offset) => lines.linePos(offset).line);
    const top = { file, line: 1 };
    const root = reader.value(document.contents as Node | null, [], top) ?? null;
    return {
      root,
      place: reader.place(document.contents as Node | null, top),
      cleared: reader.cleared,
    };
  });
}
