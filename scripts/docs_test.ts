import assert from "node:assert/strict";
import { API_PREFIX, ENDPOINTS } from "../lib/api/endpoints.ts";
import { ENGINES } from "../test/contract/deploy_engines.ts";
import { pages, stale, withPart } from "./docs.ts";
import { routes } from "./docs/http_api.ts";
import { reached } from "./docs/licenses.ts";

Deno.test("docs: every table's rows are on its page", async () => {
  const made = await pages();
  const has = (name: string, ...texts: string[]) => {
    for (const text of texts) assert(made.get(name)!.includes(text), `${name}: ${text}`);
  };
  has("server-options.md", "`SVC_ADDR`", "`--[no-]builder-auto`", "`SVC_JWT_ISSUER`", "## Tunnels");
  has("http-api.md", "`GET /healthz`", "`PATCH /v2/{name+}", "`PUT /.svc/v1/deployments/{name}`");
  has("errors.md", "`digest_invalid`", "`DIGEST_INVALID`", "`data_dir_locked`");
  has("licenses.md", "| zod@4", "| ssh2@1", "THE SOFTWARE IS PROVIDED");
  assert(!made.get("licenses.md")!.includes("| fast-check@"), "what only tests use is bundled");
  has("deployment-spec.md", "## volumes", "| `labels` | map |", "| `volumes[].size` |");
  assert.match(made.get("deployment-spec.md")!, /\| field \| .*\bbare\b.* \|\n/);
  const page = made.get("../backends.md")!;
  for (const name of Object.keys(ENGINES)) {
    assert.match(page, new RegExp(`\\*\\*.*${name}.*\\*\\*: `));
  }
  has(
    "../backends.md",
    "## A store",
    "- no images: images are unpacked into snapshots",
    "  - images",
  );
  has("commands.md", "## svc build", "`--build-arg", "## svc serve");
  for (const [name, text] of made) {
    for (const line of text.split("\n").filter((line) => line.startsWith("|"))) {
      const cells = line.replaceAll("\\|", "").split("|").length;
      assert(cells >= 4, `${name}: ${line}`);
    }
  }
});

Deno.test("docs: every route of the management API says what it takes and answers", () => {
  const { management, auth } = routes();
  for (const { method, path, answers } of [...management, ...auth]) {
    assert.ok(answers, `${method} ${path}`);
    if (path.startsWith(API_PREFIX)) {
      assert.ok(`${method} ${path.slice(API_PREFIX.length)}` in ENDPOINTS, `${method} ${path}`);
    }
  }
  assert.equal(management.length + auth.length, Object.keys(ENDPOINTS).length + 3);
});

Deno.test("docs: a changed, a missing and a left-over page are stale", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const made = new Map([["a.md", "a"], ["b.md", "b"], ["c.md", "c"]]);
    await Deno.writeTextFile(`${folder}/a.md`, "a");
    await Deno.writeTextFile(`${folder}/b.md`, "old");
    await Deno.writeTextFile(`${folder}/z.md`, "left over");
    assert.deepEqual(await stale(folder, made), ["b.md", "c.md", "z.md"]);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("docs: a part of a page is written between its marks, and nowhere else", () => {
  const begin = "<!-- deno-fmt-ignore-start -->\n";
  const end = "<!-- deno-fmt-ignore-end -->\n";
  const page = `before\n${begin}old\n${end}after\n`;
  const made = withPart(page, "new\n");
  assert.equal(made, `before\n${begin}\nnew\n\n${end}after\n`);
  assert.equal(withPart(made, "new\n"), made);
  assert.throws(() => withPart("before\nafter\n", "new\n"), /no marks/);
});

Deno.test("docs: licenses are those of what the packages reach, by name or by name and version", () => {
  const lock = {
    specifiers: { "npm:a@1": "1.0.0", "npm:@s/b@2": "2.0.0", "npm:tests@1": "1.0.0" },
    npm: {
      "a@1.0.0": { dependencies: ["c@2.0.0"], optionalDependencies: ["d"] },
      "@s/b@2.0.0": { dependencies: ["a"] },
      "c@1.0.0": {},
      "c@2.0.0": {},
      "d@1.0.0": { dependencies: ["a"] },
      "tests@1.0.0": { dependencies: ["c@1.0.0"] },
    },
  };
  assert.deepEqual(reached(lock, ["tests"]), ["@s/b@2.0.0", "a@1.0.0", "c@2.0.0", "d@1.0.0"]);
});
