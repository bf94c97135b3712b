import assert from "node:assert/strict";
import fc from "fast-check";
import { runs } from "../../test/fixtures/property.ts";
import { isDigest } from "./digest.ts";
import { formatReference, isRepositoryName, isTag, parseReference } from "./reference.ts";

const DIGEST = `sha256:${"a1".repeat(32)}`;

Deno.test("parseReference tells registry, repository, tag and digest apart", () => {
  const cases: Record<string, ReturnType<typeof parseReference>> = {
    "busybox": { repository: "busybox" },
    "busybox:1.36": { repository: "busybox", tag: "1.36" },
    "library/busybox": { repository: "library/busybox" },
    "localhost/app:v1": { registry: "localhost", repository: "app", tag: "v1" },
    "127.0.0.1:5000/a/b__c:X": { registry: "127.0.0.1:5000", repository: "a/b__c", tag: "X" },
    "[::1]:5000/app": { registry: "[::1]:5000", repository: "app" },
    "Upper/app": { registry: "Upper", repository: "app" },
    "example.org/a--b": { registry: "example.org", repository: "a--b" },
    [`app@${DIGEST}`]: { repository: "app", digest: DIGEST },
    [`host:1/app:t@${DIGEST}`]: { registry: "host:1", repository: "app", tag: "t", digest: DIGEST },
  };
  for (const [text, expected] of Object.entries(cases)) {
    assert.deepEqual(parseReference(text), expected, text);
    assert.equal(formatReference(expected), text);
  }
});

Deno.test("parseReference names what is wrong", () => {
  const cases: Record<string, RegExp> = {
    "": /repository is missing/,
    "App": /lower case/,
    "a//b": /separated by/,
    "-a": /separated by/,
    "a-": /separated by/,
    "a..b": /separated by/,
    "a___b": /separated by/,
    "../x": /not host/,
    "a:": /a tag is/,
    "a:.x": /a tag is/,
    [`a:${"t".repeat(129)}`]: /a tag is/,
    "a@sha256:12": /after @/,
    "host:70000/a": /not host/,
    "ho_st.x/a": /not host/,
    [`${"a".repeat(256)}`]: /255/,
    [`host.x/${"a".repeat(250)}`]: /255/,
    "a b": /separated by/,
  };
  for (const [text, why] of Object.entries(cases)) {
    assert.throws(() => parseReference(text), { code: "reference_invalid", message: why }, text);
  }
});

Deno.test("names and tags are held to the distribution specification's grammar", () => {
  for (const good of ["a", "a/b/c", "a.b_c__d-e---f", "0", "a".repeat(255)]) {
    assert.ok(isRepositoryName(good), good);
  }
  for (const bad of ["", "/a", "a/", "a/../b", "A", "a:b", "a%2fb", "a".repeat(256), "a\n"]) {
    assert.ok(!isRepositoryName(bad), bad);
  }
  assert.ok(isTag("_x") && isTag("v1.0-rc_1") && isTag("t".repeat(128)));
  assert.ok(
    !isTag("") && !isTag("-x") && !isTag("a/b") && !isTag("t".repeat(129)) && !isTag("a\n"),
  );
});

/** Texts of what names are made of, and of what they must not be. */
const nearly = fc.array(
  fc.constantFrom(
    ..."aZ0._-/:@%2f\\ \0\n\u202e".split(""),
    "..",
    "//",
    "%2e",
    "%00",
    "sha256:",
    DIGEST,
  ),
  { maxLength: 12 },
).map((parts) => parts.join(""));

const component = fc.stringMatching(/^[a-z0-9]{1,6}([._-][a-z0-9]{1,4})?$/);
const reference = fc.record({
  registry: fc.constantFrom(undefined, "localhost", "h.example:5000", "[fe80::1]"),
  repository: fc.array(component, { minLength: 1, maxLength: 4 }).map((parts) => parts.join("/")),
  tag: fc.option(fc.stringMatching(/^\w[\w.-]{0,10}$/), { nil: undefined }),
  digest: fc.constantFrom(undefined, DIGEST),
});

Deno.test("format and parse are inverse", () => {
  fc.assert(
    fc.property(reference, (value) => {
      // A first component with a dot would be read as a registry, as docker does.
      fc.pre(value.registry !== undefined || !/^[^/]*\.[^/]*\//.test(value.repository));
      fc.pre(value.registry !== undefined || !value.repository.startsWith("localhost/"));
      const parsed = parseReference(formatReference(value));
      assert.deepEqual(
        { registry: undefined, tag: undefined, digest: undefined, ...parsed },
        { ...value },
      );
    }),
    runs(200),
  );
});

Deno.test("parseReference never fails but by reference_invalid, and what it takes it gives back", () => {
  fc.assert(
    fc.property(fc.oneof(fc.string({ maxLength: 40, unit: "binary" }), nearly), (text) => {
      try {
        const parsed = parseReference(text);
        assert.equal(formatReference(parsed), text);
        assert.ok(isRepositoryName(parsed.repository));
        assert.ok(parsed.tag === undefined || isTag(parsed.tag));
        assert.ok(parsed.digest === undefined || isDigest(parsed.digest));
      } catch (error) {
        assert.equal((error as { code?: string }).code, "reference_invalid");
      }
    }),
    runs(500),
  );
});

Deno.test("no name or tag leads anywhere but to its own key", () => {
  fc.assert(
    fc.property(fc.oneof(fc.string({ unit: "binary", maxLength: 20 }), nearly), (text) => {
      for (const accepted of [isTag(text), isRepositoryName(text)]) {
        if (!accepted) continue;
        assert.match(text, /^[\w./-]+$/);
        assert.ok(!text.split("/").some((part) => ["", ".", ".."].includes(part)), text);
      }
      if (isTag(text)) assert.ok(!text.includes("/"));
    }),
    runs(1000),
  );
});
