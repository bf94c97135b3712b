/** Compose files as attack: each ends in bounded time, with an error that names the place or as what it says. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { loadProject } from "./load.ts";

async function load(text: string) {
  const folder = await Deno.makeTempDir({ prefix: "svc-compose-hostile-" });
  try {
    await Deno.writeTextFile(join(folder, "compose.yaml"), text);
    return await loadProject({ files: [], profiles: [], env: {}, envFiles: [], cwd: folder });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const ONE = "services: { a: { image: i } }\n";

const bomb = () => {
  const lines = ["name: b", `x-0: &a0 [${Array(9).fill("x").join(",")}]`];
  for (let i = 1; i < 12; i++) {
    lines.push(`x-${i}: &a${i} [${Array(9).fill(`*a${i - 1}`).join(",")}]`);
  }
  return `${lines.join("\n")}\n${ONE}`;
};

const chain = (length: number, link: (other: string) => string) =>
  "name: c\nservices:\n" + Array.from(
    { length },
    (_, i) => `  s${i}: { image: i${i > 0 ? `, ${link(`s${i - 1}`)}` : ""} }\n`,
  ).join("");

const ERRORS: [string, string, RegExp][] = [
  ["aliases of aliases", bomb(), /stands for more than \d+ values/],
  [
    "variables in variables",
    `name: n\nservices: { a: { image: "${"${A:-".repeat(1e5)}x${"}".repeat(1e5)}" } }\n`,
    /variables within \d+ others/,
  ],
  ["lists in lists", `x-a: ${"[".repeat(5e4)}${"]".repeat(5e4)}\n${ONE}`, /nested too deeply/],
  [
    "a file that includes itself",
    `include: [compose.yaml]\n${ONE}`,
    /include each other in a circle/,
  ],
  [
    "services that extend each other",
    "name: e\nservices: { a: { extends: b }, b: { extends: { service: a } } }\n",
    /extend each other in a circle/,
  ],
  [
    "services that need each other",
    "name: d\nservices: { a: { image: i, depends_on: [b] }, b: { image: i, depends_on: [a] } }\n",
    /depend on each other in a circle/,
  ],
];

for (const [name, text, message] of ERRORS) {
  Deno.test(`hostile: ${name}`, async () => {
    await assert.rejects(load(text), { code: "compose_invalid", message });
  });
}

Deno.test("hostile: ten thousand services, each after another", async () => {
  const { project } = await load(chain(1e4, (other) => `depends_on: [${other}]`));
  assert.equal(Object.keys(project.services).length, 1e4);
});

Deno.test("hostile: ten thousand services, each an extension of another", async () => {
  const { project } = await load(chain(1e4, (other) => `extends: { service: ${other} }`));
  assert.equal(project.services.s9999.image, "i");
});

Deno.test("hostile: a text of a megabyte of variables", async () => {
  const { project } = await load(
    `name: i\nservices: { a: { image: "${"${A:-b}".repeat(150_000)}" } }\n`,
  );
  assert.equal(project.services.a.image!.length, 150_000);
});
