/** Comments cite pages of docs/spec by name and heading: what they name has to be there. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { exists } from "../lib/base/fs.ts";
import { ROOT } from "./build/bundle.ts";

/** `SPEC "Limits"`, `SPEC.md, "Storage"`, `SPEC.md's table TLS`; the line may end in between. */
const SPEC_CITATION = /\bSPEC(?:(?:\.md)?[\s*]+|\.md(?:,|'s)[\s*]+)(?:"([^"]+)"|table (\w+))/g;
const DESIGN_CITATION = /\bDESIGN(?:\.md)?[\s*]+(?:section|rule) (\d+)/g;

async function headings(page: string): Promise<string[]> {
  const text = await Deno.readTextFile(join(ROOT, "docs/spec", page));
  // Some of its lists have a title and no heading.
  return [...text.matchAll(/^(?:#+ (.+)|([A-Z][\w ]+):)$/gm)].map((found) => found[1] ?? found[2]);
}

async function sources(): Promise<string[]> {
  const { stdout } = await new Deno.Command("git", {
    args: ["ls-files", "--", "*.ts", "*.sh", "docs/*.md"],
    cwd: ROOT,
  }).output();
  return new TextDecoder().decode(stdout).split("\n").filter(Boolean);
}

Deno.test("citations of docs/spec name headings that are there", async () => {
  const spec = await headings("SPEC.md");
  const design = await headings("DESIGN.md");
  const wrong: string[] = [];
  let seen = 0;
  for (const path of await sources()) {
    const text = await Deno.readTextFile(join(ROOT, path)).catch(() => "");
    for (const match of text.matchAll(SPEC_CITATION)) {
      const name = (match[1] ?? match[2]).replace(/\n\s*\*\s*/g, " ");
      seen++;
      if (!spec.some((heading) => heading.startsWith(name))) wrong.push(`${path}: ${match[0]}`);
    }
    for (const match of text.matchAll(DESIGN_CITATION)) {
      seen++;
      if (
        match[0].includes("rule")
          ? Number(match[1]) > 10
          : !design.some((heading) => heading.startsWith(`${match[1]}. `))
      ) {
        wrong.push(`${path}: ${match[0]}`);
      }
    }
  }
  assert.deepEqual(wrong, []);
  assert(seen > 40, `only ${seen} citations were found`);
});

Deno.test("pages that comments name are there, and rules are cited with their headings", async () => {
  const wrong: string[] = [];
  let seen = 0;
  for (const path of await sources()) {
    if (!path.endsWith(".ts")) continue;
    const text = await Deno.readTextFile(join(ROOT, path)).catch(() => "");
    for (const [, page] of text.matchAll(/(?:\/\/|\*) .*?\b(docs\/[\w./-]+\.md)\b/g)) {
      seen++;
      if (!await exists(join(ROOT, page))) wrong.push(`${path}: ${page}`);
    }
    for (const [rule] of text.matchAll(/\bSPEC(?:\.md)? rules? \d/g)) {
      wrong.push(`${path}: ${rule}`);
    }
  }
  assert.deepEqual(wrong, []);
  assert(seen > 10, `only ${seen} citations were found`);
});

Deno.test("files that the pages of docs name are there", async () => {
  const pages = (await sources()).filter((path) =>
    /^docs\/(?!spec\/|reference\/).*\.md$/.test(path)
  );
  assert(pages.length > 5);
  const missing: string[] = [];
  for (const page of ["README.md", "CONTRIBUTING.md", "SECURITY.md", ...pages]) {
    const text = await Deno.readTextFile(join(ROOT, page));
    for (
      const [, path] of text.matchAll(/`((?:lib|backends|test|scripts|docs|examples)\/[\w./-]+)`/g)
    ) {
      if (!await exists(join(ROOT, path))) missing.push(`${page}: ${path}`);
    }
  }
  assert.deepEqual(missing, []);
});
