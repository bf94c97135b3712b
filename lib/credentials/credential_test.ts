import assert from "node:assert/strict";
import { awsKeys, oneValue, parseText } from "./credential.ts";
import { fileText } from "./file_formats.ts";

const SECRET = "s3cr3t";

Deno.test("credential: the forms of a source's text", () => {
  assert.deepEqual(parseText(`${SECRET}\n`, "raw", "x"), { values: { value: SECRET } });
  assert.deepEqual(parseText('{"a":"b","n":7}', "json", "x"), { values: { a: "b", n: "7" } });
  const ends = "2030-01-01T00:00:00.000Z";
  assert.deepEqual(parseText(`{"values":{"a":"b"},"expiration":"${ends}"}`, "json", "x"), {
    values: { a: "b" },
    expiration: new Date(ends),
  });
  assert.deepEqual(parseText("# c\nexport A=b=c\nB='d e'\n\n", "env", "x").values, {
    A: "b=c",
    B: "d e",
  });
  const aws = { Version: 1, AccessKeyId: "a", SecretAccessKey: SECRET, Expiration: ends };
  assert.deepEqual(parseText(JSON.stringify(aws), "aws", "x"), {
    values: { accessKeyId: "a", secretAccessKey: SECRET },
    expiration: new Date(ends),
  });
});

Deno.test("credential: what cannot be read is told without a letter of it", () => {
  const wrong: [string, Parameters<typeof parseText>[1], RegExp][] = [
    [SECRET, "json", /it is no JSON object/],
    [`["${SECRET}"]`, "json", /it is no JSON object/],
    [`{"a":{"${SECRET}":1}}`, "json", /its member "a" is no text/],
    [`{"values":{},"expiration":"${SECRET}"}`, "json", /its expiration is no time/],
    [`A=1\n${SECRET}`, "env", /line 2 is no NAME=VALUE/],
    [`{"AccessKeyId":"${SECRET}"}`, "aws", /it has no AccessKeyId and SecretAccessKey/],
  ];
  for (const [text, format, why] of wrong) {
    assert.throws(() => parseText(text, format, "it"), (error: Error) => {
      assert.match(error.message, why);
      assert.ok(!error.message.includes(SECRET), error.message);
      return true;
    });
  }
});

Deno.test("credential: the one value", () => {
  assert.equal(oneValue("c", { values: { any: "1" } }), "1");
  assert.equal(oneValue("c", { values: { a: "1", token: "2" } }), "2");
  assert.equal(oneValue("c", { values: { a: "1", token: "2" } }, "a"), "1");
  assert.throws(() => oneValue("c", { values: { a: "1", b: "2" } }), {
    code: "spec_invalid",
    message: /several values/,
    help: /one of a, b/,
  });
  assert.throws(() => oneValue("c", { values: { a: "1" } }, "toString"), /no value toString/);
});

Deno.test("credential: files", () => {
  const credential = { values: { accessKeyId: "AK", secretAccessKey: "it's" } };
  const file = (format: Parameters<typeof fileText>[2]["format"], valueKey?: string) =>
    fileText("c", credential, { format, valueKey });
  assert.equal(file("json"), '{"values":{"accessKeyId":"AK","secretAccessKey":"it\'s"}}\n');
  assert.equal(file("env"), "accessKeyId=AK\nsecretAccessKey='it'\\''s'\n");
  assert.equal(file("raw", "accessKeyId"), "AK");
  assert.equal(
    file("aws-credentials"),
    "[default]\naws_access_key_id = AK\naws_secret_access_key = it's\n",
  );
  const wrong = { values: { "a b": SECRET } };
  assert.throws(() => fileText("c", wrong, { format: "env" }), /"a b" is no variable's name/);
  assert.throws(() => fileText("c", wrong, { format: "aws-credentials" }), /no accessKeyId/);
  const sly = { values: { accessKeyId: "a\n[other]", secretAccessKey: "b" } };
  assert.throws(() => fileText("c", sly, { format: "aws-credentials" }), /a key has a newline/);
});

Deno.test("credential: keys of AWS, also under the names of its variables", () => {
  const values = { AWS_ACCESS_KEY_ID: "a", AWS_SECRET_ACCESS_KEY: "b", AWS_SESSION_TOKEN: "c" };
  assert.deepEqual(awsKeys("c", { values }), {
    accessKeyId: "a",
    secretAccessKey: "b",
    sessionToken: "c",
  });
});
