/**
 * Writes docs/reference from the tables that the program runs on: options, routes, errors, commands; and parts of
 * other pages, between marks. With `--check` it writes nothing and exits with 1 where a page is stale.
 */
import { join, resolve } from "node:path";
import { authenticationPage } from "./docs/authentication.ts";
import { commandsPage } from "./docs/commands.ts";
import { deploymentSpecPage } from "./docs/deployment_spec.ts";
import { enginesPart } from "./docs/engines.ts";
import { errorsPage } from "./docs/errors.ts";
import { httpApiPage } from "./docs/http_api.ts";
import { licensesPage } from "./docs/licenses.ts";
import { openApiPage } from "./docs/openapi.ts";
import { profilePage } from "./docs/profile.ts";
import { serverOptionsPage } from "./docs/server_options.ts";

const FOLDER = join(resolve(import.meta.dirname!, ".."), "docs/reference");

const PAGES: Record<string, () => string | Promise<string>> = {
  "authentication.md": authenticationPage,
  "commands.md": commandsPage,
  "deployment-spec.md": deploymentSpecPage,
  "errors.md": errorsPage,
  "http-api.md": httpApiPage,
  "licenses.md": licensesPage,
  "openapi.json": openApiPage,
  "profile.md": profilePage,
  "server-options.md": serverOptionsPage,
};

/** Parts of pages that are written by hand otherwise. */
const PARTS: Record<string, () => string> = {
  "../backends.md": enginesPart,
};

const NOTE = "<!-- Made by `deno task docs`; do not edit. -->\n\n";

const BEGIN = "<!-- deno-fmt-ignore-start -->\n";
const END = "<!-- deno-fmt-ignore-end -->\n";

/** The page with this between its marks. */
export function withPart(page: string, part: string): string {
  const [begin, end] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (begin < 0 || end < begin) throw new Error("Cannot write a part of a page: it has no marks");
  return `${page.slice(0, begin)}${BEGIN}\n${part}\n${page.slice(end)}`;
}

/** Path below docs/reference → content. */
export async function pages(): Promise<Map<string, string>> {
  const made = new Map<string, string>();
  for (const [name, page] of Object.entries(PAGES)) {
    made.set(name, (name.endsWith(".md") ? NOTE : "") + await page());
  }
  for (const [name, part] of Object.entries(PARTS)) {
    made.set(name, withPart(await Deno.readTextFile(join(FOLDER, name)), part()));
  }
  return made;
}

/** Names of the pages that differ from their file, and of files that belong to no page. */
export async function stale(folder: string, made: ReadonlyMap<string, string>): Promise<string[]> {
  const names: string[] = [];
  for (const [name, text] of made) {
    const current = await Deno.readTextFile(join(folder, name)).catch(() => undefined);
    if (current !== text) names.push(name);
  }
  for await (const entry of Deno.readDir(folder)) if (!made.has(entry.name)) names.push(entry.name);
  return names.sort();
}

if (import.meta.main) {
  const made = await pages();
  await Deno.mkdir(FOLDER, { recursive: true });
  if (Deno.args.includes("--check")) {
    const names = await stale(FOLDER, made);
    for (const name of names) {
      console.error(`${join("docs/reference", name)} is stale: run \`deno task docs\``);
    }
    if (names.length > 0) Deno.exit(1);
  } else {
    for (const [name, text] of made) await Deno.writeTextFile(join(FOLDER, name), text);
  }
}
