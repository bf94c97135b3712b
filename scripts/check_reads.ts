/**
 * Checks that files of trees that are not ours (contexts, images, snapshots, roots of workloads) are read in
 * one way only, `lib/sys/rooted_file.ts`: in the places that deal with such trees, every other read of a file
 * has to be of a path of the host's own, written out, or carry a comment that begins with "Our own".
 *
 * Exit code 1 lists each offending line.
 */
import { join } from "node:path";

/** Folders of the modules that deal with such trees. */
const PLACES = [
  "lib/build",
  "lib/deploy",
  "lib/runtime",
  "lib/snapshot",
  "backends/build",
  "backends/deploy",
];

/** Calls that open a file for reading, or could. */
const READS = [
  /\bDeno\.(open|openSync|readFile|readFileSync|readTextFile|readTextFileSync)\(/,
  /\bopenSync\(|\breadFileSync\(|\bcreateReadStream\(/,
  /\bfrom "node:fs\/promises"/,
  /\bO\.(RDONLY|RDWR)\b(?!.*O\.DIRECTORY)/,
];

/** Opens that only write. */
const WRITES = /createNew: true|\bwrite: true(?!.*read: true)|"w"/;

/** A path of the host's own, written out where it is read; a workload's root is reached through /proc too. */
const HOSTS = /\(\s*["`]\/(proc|sys|etc|run|dev)\/(?!.*\/root\b)/;

const OWN = /^\s*\/\/ Our own\b/;

/** Line numbers of reads that may be of foreign trees. */
export function foreignReads(text: string): number[] {
  const lines = text.split("\n");
  return lines.flatMap((line, index) => {
    if (!READS.some((read) => read.test(line)) || /^\s*(\/\/|\*|\/\*)/.test(line)) return [];
    // The arguments may stand on the lines that follow.
    const call = /\($/.test(line) ? lines.slice(index, index + 4).join(" ") : line;
    if (WRITES.test(call) || HOSTS.test(call) || OWN.test(lines[index - 1] ?? "")) return [];
    return [index + 1];
  });
}

async function* sources(root: string, folder: string): AsyncGenerator<string> {
  for await (const { name, isDirectory } of Deno.readDir(join(root, folder))) {
    const path = `${folder}/${name}`;
    if (isDirectory) yield* sources(root, path);
    else if (/\.ts$/.test(name) && !/_test\.ts$/.test(name)) yield path;
  }
}

/** `path:line` of each offending read below `root`, sorted. */
export async function checkReads(root: string): Promise<string[]> {
  const found: string[] = [];
  for (const place of PLACES) {
    for await (const path of sources(root, place)) {
      const text = await Deno.readTextFile(join(root, path));
      found.push(...foreignReads(text).map((line) => `${path}:${line}`));
    }
  }
  return found.sort();
}

if (import.meta.main) {
  const found = await checkReads(join(import.meta.dirname!, ".."));
  for (const place of found) console.error(place);
  if (found.length > 0) {
    console.error(
      "These read a file past lib/sys/rooted_file.ts: use it where the tree is not ours, else say why " +
        'it is in a comment on the line before ("// Our own: …").',
    );
    Deno.exit(1);
  }
}
