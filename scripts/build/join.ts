/**
 * Joins files of the bundle that are loaded together. The bundler makes a file for each set of entries that
 * share code: the shortest command would load 45 files, and each of them takes its time
 * (docs/decisions/client-start.md).
 */
import { join } from "node:path";

const LOCAL = String.raw`"\./([\w.-]+\.js)"`;
/** The bundler's imports, which precede all code of a file: of other files of the bundle, and the rest. */
const LOCAL_IMPORT = new RegExp(String.raw`import (?:(\w+|\{[^}]*\}) from )?${LOCAL};\n`, "y");
const OTHER_IMPORT = /import [^;]*;\n/y;
/** Its exports: one list in a file, and the default of a CommonJS package. */
const EXPORTS = /^export \{([^}]*)\};$/m;

interface Import {
  /** Pairs of the name there and the name here; none where the file is only run. */
  names: [there: string, here: string][];
  from: string;
}

/** Where the code of a file that was joined is now. */
interface Place {
  /** Name of the joined file. */
  file: string;
  /** Stands before the names of its exports there, which files may share. */
  prefix: string;
}

/** "a, b as c". */
function pairs(list: string): [string, string][] {
  return list.split(",").map((word) => word.trim()).filter((word) => word !== "").map((word) => {
    const [from, to = from] = word.split(" as ");
    return [from, to];
  });
}

const braced = (names: [string, string][]) =>
  `{ ${names.map(([from, to]) => `${from} as ${to}`).join(", ")} }`;

function readImports(text: string): { local: Import[]; others: string; code: string } {
  const local: Import[] = [];
  let others = "";
  for (let at = 0;;) {
    LOCAL_IMPORT.lastIndex = OTHER_IMPORT.lastIndex = at;
    const found = LOCAL_IMPORT.exec(text);
    const other = found ? null : OTHER_IMPORT.exec(text);
    if (found) {
      const [, words = "{}", from] = found;
      const names: Import["names"] = words.startsWith("{")
        ? pairs(words.slice(1, -1))
        : [["default", words]];
      local.push({ names, from });
    } else if (other) others += other[0];
    else return { local, others, code: text.slice(at) };
    at += (found ?? other)![0].length;
  }
}

function exportsOf(text: string): string[] {
  const names = pairs(EXPORTS.exec(text)?.[1] ?? "").map(([, to]) => to);
  return /^export default /m.test(text) ? [...names, "default"] : names;
}

/** The text with imports of the joined files; undefined where it has none of what was joined. */
function redirected(text: string, places: ReadonlyMap<string, Place>): string | undefined {
  const { local, others, code } = readImports(text);
  if (!local.some(({ from }) => places.has(from))) return undefined;
  const lines = local.map(({ names, from }) => {
    const { file, prefix } = places.get(from) ?? { file: from, prefix: "" };
    if (names.length === 0) return `import "./${file}";\n`;
    const there = names.map(([name, here]): [string, string] => [prefix + name, here]);
    return `import ${braced(there)} from "./${file}";\n`;
  });
  return lines.join("") + others + code;
}

/**
 * Joins what each of `entries` imports statically, without what an earlier entry has, into the file of that name:
 * so a joined file imports earlier ones only, and each module stays in one file. `bundle` makes one file of a
 * file and what it imports, without the joined ones.
 */
export async function joinFiles(
  dir: string,
  entries: readonly string[],
  bundle: (from: string, to: string) => Promise<void>,
): Promise<void> {
  const texts = new Map<string, string>();
  const stubs: string[] = [];
  for await (const { name } of Deno.readDir(dir)) {
    if (name.endsWith(".js")) texts.set(name, await Deno.readTextFile(join(dir, name)));
  }
  const write = async (name: string, text: string) => {
    texts.set(name, text);
    await Deno.writeTextFile(join(dir, name), text);
  };
  for (const entry of entries) {
    // The set grows during this loop. What was joined is imported from the joined file by now.
    const reached = new Set([entry]);
    for (const name of reached) {
      for (const { from } of readImports(texts.get(name)!).local) {
        if (!entries.includes(from)) reached.add(from);
      }
    }
    reached.delete(entry);
    const names = new Map([...reached].map((name) => [name, exportsOf(texts.get(name)!)]));
    const places = new Map(
      [...reached].map((name, n): [string, Place] => [name, { file: entry, prefix: `m${n}_` }]),
    );
    const all = [...places].map(([name, { prefix }]) => {
      const list = names.get(name)!.map((it): [string, string] => [it, prefix + it]);
      return `import "./${name}";\nexport ${braced(list)} from "./${name}";\n`;
    });
    const source = join(dir, `.${entry}`);
    await Deno.writeTextFile(source, all.join(""));
    await bundle(source, join(dir, entry));
    await Deno.remove(source);
    texts.set(entry, await Deno.readTextFile(join(dir, entry)));
    for (const [name, { prefix }] of places) {
      // Stays where an expression imports the file.
      stubs.push(name);
      const list = names.get(name)!.map((it): [string, string] => [prefix + it, it]);
      await write(name, `export ${braced(list)} from "./${entry}";\n`);
    }
    for (const [name, text] of texts) {
      const changed = redirected(text, places);
      if (changed !== undefined) await write(name, changed);
    }
  }
  const named = new Set(
    [...texts.values()].flatMap((text) =>
      [...text.matchAll(new RegExp(LOCAL, "g"))].map(([, name]) => name)
    ),
  );
  for (const name of stubs) {
    if (!named.has(name)) await Deno.remove(join(dir, name));
  }
}
