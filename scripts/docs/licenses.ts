/** docs/reference/licenses.md, from deno.lock and the packages that it names: what the executable bundles. */
import { join } from "node:path";
import { ROOT } from "../build/bundle.ts";
import { cell, table } from "./markdown.ts";

/** Packages that only tests and scripts use; the executable does not contain them. */
const ONLY_TESTS = ["@babel/parser", "@seriousme/openapi-schema-validator", "fast-check"];

interface Lock {
  /** "npm:zod@4.6.7" → "4.6.7". */
  specifiers: Record<string, string>;
  /** "zod@4.6.7" → names (with a version where there are several) of what it depends on. */
  npm: Record<string, { dependencies?: string[]; optionalDependencies?: string[] }>;
}

/** Index of the "@" before the version; the "@" of a scope is skipped. */
const versionAt = (id: string) => id.indexOf("@", 1);

/** "name@version" of everything that the given packages reach in the lock file, sorted. */
export function reached(lock: Lock, leftOut: readonly string[]): string[] {
  const byName = new Map<string, string>();
  for (const id of Object.keys(lock.npm)) byName.set(id.slice(0, versionAt(id)), id);
  const found = new Set<string>();
  const add = (reference: string) => {
    const id = lock.npm[reference] ? reference : byName.get(reference);
    if (!id || found.has(id)) return;
    found.add(id);
    lock.npm[id].dependencies?.forEach(add);
    lock.npm[id].optionalDependencies?.forEach(add);
  };
  for (const [specifier, version] of Object.entries(lock.specifiers)) {
    const name = specifier.slice("npm:".length, specifier.indexOf("@", "npm:".length + 1));
    if (!leftOut.includes(name)) add(`${name}@${version}`);
  }
  return [...found].sort();
}

/** The folder of the cache's only registry, which has a folder for each package. */
async function packagesFolder(): Promise<string> {
  const { stdout } = await new Deno.Command(Deno.execPath(), { args: ["info", "--json"] }).output();
  const { npmCache } = JSON.parse(new TextDecoder().decode(stdout)) as { npmCache: string };
  const registries: string[] = [];
  for await (const entry of Deno.readDir(npmCache)) {
    if (entry.isDirectory) registries.push(entry.name);
  }
  if (registries.length !== 1) {
    throw new Error(`Cannot find the packages in ${npmCache}: run \`deno install --frozen\``);
  }
  return join(npmCache, registries[0]);
}

interface License {
  id: string;
  /** SPDX expression of package.json. */
  license: string;
  /** The file's text; absent where the package has none. */
  text?: string;
}

async function licenseOf(folder: string, id: string): Promise<License> {
  const at = versionAt(id);
  // After "_" stand the peer dependencies that the package was resolved with.
  const version = id.slice(at + 1).replace(/_.*$/, "");
  const place = join(folder, id.slice(0, at), version);
  const { license, licenses } = JSON.parse(await Deno.readTextFile(join(place, "package.json")));
  let text: string | undefined;
  const names: string[] = [];
  for await (const { name, isFile } of Deno.readDir(place)) {
    if (isFile && /^licen[cs]e(\.(md|txt))?$/i.test(name)) names.push(name);
  }
  if (names.length > 0) text = (await Deno.readTextFile(join(place, names.sort()[0]))).trim();
  // Old packages have a list of license objects.
  return { id: id.replace(/_.*$/, ""), license: license ?? licenses?.[0]?.type ?? "", text };
}

export async function licensesPage(): Promise<string> {
  const lock = JSON.parse(await Deno.readTextFile(join(ROOT, "deno.lock"))) as Lock;
  const folder = await packagesFolder();
  const all: License[] = [];
  for (const id of reached(lock, ONLY_TESTS)) {
    // Optional native packages for other platforms are in the lock file, but not in the executable.
    const found = await licenseOf(folder, id).catch((error) => {
      if (error instanceof Deno.errors.NotFound) return undefined;
      throw error;
    });
    if (found) all.push(found);
  }
  const texts = Map.groupBy(
    all.filter(({ text }) => text),
    ({ text }) => text!.replaceAll("\r\n", "\n"),
  );
  return "# Licenses\n\n" +
    "svc is under the Apache License 2.0. The executable holds Deno (MIT, with V8 and the parts that " +
    "Deno names) and these npm packages, or those of their parts that it needs. " +
    "`svc version --licenses` prints this page.\n\n" +
    table(["package", "license"], all.map(({ id, license }) => [cell(id), cell(license)])) +
    [...texts].map(([text, of]) =>
      `\n## ${of.map(({ id }) => id).join(", ")}\n\n` +
      text.split("\n").map((line) => `    ${line}`.trimEnd()).join("\n") + "\n"
    ).join("");
}
