import assert from "node:assert/strict";
import type { FieldTable } from "../../../lib/api/deploy_spec_fields.ts";
import { DEPLOY_SPEC_HELP } from "./help.ts";
import { deploySpecJsonSchema, fieldsOf } from "./json_schema.ts";
import { validateDeploySpec } from "../../../lib/api/deploy_spec_parse.ts";
import { sampleOf } from "../../../test/fixtures/spec_samples.ts";

Deno.test("every field has a meaning and an example that is a spec", () => {
  const schema = deploySpecJsonSchema();
  const paths = [...fieldsOf(schema)];
  assert.ok(paths.length > 150, String(paths.length));
  assert.ok(paths.some(([path]) => path === "credentials.sources[].deliver[].kind"));
  assert.ok(paths.some(([path]) => path === "ingress.tls.secretName"));
  for (const [path, field] of paths) {
    assert.match(field.description ?? "", /^\S.*[.)]$/s, path);
    assert.notEqual(field.examples?.[0], undefined, path);
    validateDeploySpec({ name: "web", image: "app", ...sampleOf(schema, path) });
  }
});

Deno.test("a table that lacks a field, or has one too many, is not a table", () => {
  const { strict: _strict, ...rest } = DEPLOY_SPEC_HELP;
  // @ts-expect-error: `strict` is missing
  const short: FieldTable = rest;
  // @ts-expect-error: there is no such field
  const long: FieldTable = { ...DEPLOY_SPEC_HELP, colour: ["Red.", "red"] };
  const { labels: _labels, ...volume } = DEPLOY_SPEC_HELP.volumes[2];
  // @ts-expect-error: `volumes[].labels` is missing
  const inner: FieldTable = { ...DEPLOY_SPEC_HELP, volumes: ["Folders.", [], volume] };
  assert.ok(short && long && inner);
});
