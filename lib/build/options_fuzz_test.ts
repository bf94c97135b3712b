/** Options of builds come from anybody: each is read or refused, and what is read can be written again. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { formatFields, parseFields } from "../base/csv_fields.ts";
import { SvcError } from "../base/errors.ts";
import { readCacheDocument, sortedDocument } from "./cache/document.ts";
import { parseAnnotation, parseAnnotationField } from "./export/annotations.ts";
import { formatAttest, parseAttest } from "../api/build_attest.ts";
import {
  formatCacheFrom,
  formatCacheTo,
  parseCacheFrom,
  parseCacheTo,
} from "../api/build_cache_spec.ts";
import { runs } from "../../test/fixtures/property.ts";
import { formatOutput, parseOutput } from "../api/build_output.ts";

const RUNS = runs(500);

const key = fc.stringMatching(/^[a-z][a-z-]{0,8}$/);
const field = fc.oneof(fc.tuple(key), fc.tuple(key, fc.string()));

/** Lines that are nearly right. */
const line = fc.array(
  fc.oneof(
    fc.constantFrom(
      ...["type=", "type=oci", "type=registry", "type=local", "type=inline", "type=provenance"],
      ...[
        "ref=a:b",
        "dest=x",
        "src=y",
        "mode=max",
        "push=false",
        "compression=zstd",
        ",",
        '"',
        "=",
      ],
      ...["annotation.a=b", "compression-level=3", "mounts=true", "tar=false", "type=sbom"],
    ),
    fc.string({ maxLength: 6 }),
  ),
  { maxLength: 6 },
).map((parts) => parts.join(","));

/** The value, or undefined where it is refused as it should be. */
function read<T>(parse: (text: string) => T, text: string): T | undefined {
  try {
    return parse(text);
  } catch (error) {
    assert.ok(error instanceof SvcError, `${text}: ${error}`);
    assert.ok(["argument_invalid", "reference_invalid"].includes(error.code), error.code);
    return undefined;
  }
}

Deno.test("fields: what is written is read as it was", () => {
  fc.assert(
    fc.property(fc.array(field, { minLength: 1, maxLength: 5 }), (fields) => {
      const text = formatFields(fields as [string, string?][]);
      assert.deepEqual(parseFields(text, "--option"), fields);
    }),
    RUNS,
  );
});

Deno.test("options: read or refused, and the server reads what the client wrote", () => {
  fc.assert(
    fc.property(line, (text) => {
      const output = read(parseOutput, text);
      if (output) {
        const { dest: _dest, folder: _folder, ...sent } = output;
        const { dest: _none, folder: _no, ...got } = parseOutput(formatOutput(output));
        assert.deepEqual(got, sent);
      }
      const from = read(parseCacheFrom, text);
      if (from?.ref) {
        const { src: _src, ...sent } = from;
        if (from.type === "registry") assert.deepEqual(parseCacheFrom(formatCacheFrom(from)), sent);
      }
      const to = read(parseCacheTo, text);
      if (to) {
        const { dest: _dest, ...sent } = to;
        assert.deepEqual(parseCacheTo(formatCacheTo(to)), sent);
      }
      const attest = read(parseAttest, text);
      if (attest) assert.deepEqual(parseAttest(formatAttest(attest)), attest);
      read(parseAnnotation, text);
      read(parseAnnotationField, text);
    }),
    RUNS,
  );
});

Deno.test("cache documents: whatever they hold, only what is sound of them is used", () => {
  const step = {
    key: "a".repeat(64),
    created: 1,
    diffID: `sha256:${"b".repeat(64)}`,
    packing: "gzip-4",
  };
  const sound = { version: 1, records: [step], links: [{ from: step.key, to: step.key }] };
  assert.deepEqual(readCacheDocument(sound)?.records, [step]);
  const anything = fc.anything();
  const nearly = fc.record({
    version: fc.constant(1),
    records: fc.array(fc.oneof(
      anything,
      fc.constant(step),
      fc.record({
        key: fc.oneof(fc.constant(step.key), fc.string()),
        created: fc.oneof(fc.integer(), anything),
        diffID: fc.oneof(fc.constant(step.diffID), fc.string()),
        packing: fc.oneof(fc.constant("zstd-3"), fc.string()),
        digest: anything,
      }),
    )),
    links: fc.oneof(anything, fc.array(anything)),
    mounts: fc.oneof(anything, fc.array(anything)),
  });
  fc.assert(
    fc.property(fc.oneof(anything, nearly), (value) => {
      const document = readCacheDocument(value);
      if (!document) return;
      for (const record of document.records) assert.match(record.key, /^[0-9a-f]{64}$/);
      sortedDocument(document);
    }),
    RUNS,
  );
});
