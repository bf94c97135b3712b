import assert from "node:assert/strict";
import type { ImageConfig } from "../../oci/types.ts";
import { checkFilters } from "../filters.ts";
import { filterImages } from "./filters.ts";
import type { StoredImage } from "./store.ts";

function image(id: string, names: string[], created: string, labels: Record<string, string> = {}) {
  const config = { created, config: { Labels: labels } } as ImageConfig;
  return {
    id,
    config,
    hidden: [],
    names: names.map((name) => {
      const [repository, tag] = name.split(/:(?=[^/]*$)/);
      return { repository, tag, digest: "sha256:1" };
    }),
  } as unknown as StoredImage;
}

const IMAGES = [
  image("a", ["app:v1", "ghcr.io/x/app:v1"], "2026-01-03T00:00:00Z", { a: "1" }),
  image("b", ["base:v1"], "2026-01-02T00:00:00Z", { a: "2", b: "" }),
  image("c", [], "2026-01-01T00:00:00Z"),
];

function shown(filters: Record<string, string[]>): string[] {
  const time = (name: string) => Date.parse(`2026-01-0${name}T00:00:00Z`) / 1000;
  return filterImages(IMAGES, new Map(Object.entries(filters)), time)
    .map(({ id, names }) => `${id}${names.length}`);
}

Deno.test("filters of images: each, and several", () => {
  const cases: [Record<string, string[]>, string[]][] = [
    [{}, ["a2", "b1", "c0"]],
    [{ dangling: ["true"] }, ["c0"]],
    [{ dangling: ["false"] }, ["a2", "b1"]],
    [{ reference: ["app"] }, ["a1"]],
    [{ reference: ["*:v1"] }, ["a1", "b1"]],
    [{ reference: ["ghcr.io/*/*"] }, ["a1"]],
    [{ reference: ["[ab]*", "no"] }, ["a1", "b1"]],
    [{ label: ["a"] }, ["a2", "b1"]],
    [{ label: ["a=2", "b"] }, ["b1"]],
    [{ before: ["2"] }, ["c0"]],
    [{ since: ["2"] }, ["a2"]],
    [{ until: ["2026-01-02"] }, ["c0"]],
    [{ until: ["1h"], label: ["a=1"] }, ["a2"].filter(() => Date.now() > IMAGES_ARE_OLD)],
  ];
  for (const [filters, expected] of cases) assert.deepEqual(shown(filters), expected);
});

const IMAGES_ARE_OLD = Date.parse("2026-01-04T00:00:00Z");

Deno.test("filters of images: an unknown one is refused by name", () => {
  assert.throws(
    () => checkFilters(new Map([["nope", ["1"]]]), ["label"]),
    /invalid filter 'nope'/,
  );
  assert.throws(() => shown({ until: ["yesterday"] }), /invalid time "yesterday"/);
});
