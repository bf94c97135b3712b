/** What a build is made of: a hash of the sources, and the commit they are at. */
import { createHash } from "node:crypto";
import { join, relative } from "node:path";
import { ROOT } from "./bundle.ts";

const PLACES = ["main.ts", "cli.ts", "deno.json", "deno.lock", "lib", "backends", "scripts/build"];

async function* files(path: string): AsyncIterable<string> {
  let info: Deno.FileInfo;
  try {
    info = await Deno.lstat(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return;
    throw error;
  }
  if (info.isFile) yield path;
  if (!info.isDirectory) return;
  const names = [];
  for await (const entry of Deno.readDir(path)) names.push(entry.name);
  for (const name of names.sort()) yield* files(join(path, name));
}

async function git(...args: string[]): Promise<string | undefined> {
  try {
    const output = await new Deno.Command("git", { args, cwd: ROOT, stderr: "null" }).output();
    return output.success ? new TextDecoder().decode(output.stdout).trim() : undefined;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined; // no git: no commit to name
    throw error;
  }
}

export interface SourceFacts {
  commit?: string;
  dirty: boolean;
}

export async function sourceFacts(): Promise<SourceFacts> {
  const commit = await git("rev-parse", "HEAD");
  const changes = commit && await git("status", "--porcelain", "--", ...PLACES);
  return { commit, dirty: Boolean(changes) };
}

/** Changes with any byte of the program, its pinned packages, Deno's version or `facts`. */
export async function sourceHash(facts: Record<string, unknown>): Promise<string> {
  const hash = createHash("sha256").update(JSON.stringify([Deno.version.deno, facts]));
  for (const place of PLACES) {
    for await (const path of files(join(ROOT, place))) {
      if (path.endsWith("_test.ts")) continue;
      const bytes = await Deno.readFile(path);
      hash.update(`${relative(ROOT, path)}\0${bytes.length}\0`).update(bytes);
    }
  }
  return hash.digest("hex");
}
