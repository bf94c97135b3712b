import assert from "node:assert/strict";
import { parseS3Location } from "./location.ts";

Deno.test("s3 location: every parameter", () => {
  assert.deepEqual(parseS3Location("s3://bucket"), {
    bucket: "bucket",
    prefix: "",
    pathStyle: false,
    shown: "s3://bucket",
  });
  assert.deepEqual(
    parseS3Location(
      "s3://my-bucket.x/team/a/?region=eu-west-1&endpoint=https%3A%2F%2Fs3.test%3A9000%2F&" +
        "path_style=true&access_key=AK&secret_key=a%2Fb%2Bc",
    ),
    {
      bucket: "my-bucket.x",
      prefix: "team/a/",
      region: "eu-west-1",
      endpoint: "https://s3.test:9000",
      pathStyle: true,
      credentials: { accessKeyId: "AK", secretAccessKey: "a/b+c" },
      shown: "s3://my-bucket.x/team/a/",
    },
  );
  assert.equal(parseS3Location("s3://bucket?endpoint=s3.test").endpoint, "https://s3.test");
  assert.equal(parseS3Location("s3://bucket?path_style=FALSE").pathStyle, false);
});

Deno.test("s3 location: what it gets wrong, without its secrets", () => {
  const fails = (rest: string, message: RegExp) =>
    assert.throws(() => parseS3Location(`s3://${rest}`), (error: Error & { code: string }) => {
      assert.equal(error.code, "config_invalid");
      assert.match(error.message, message);
      assert.doesNotMatch(error.message, /hush/);
      return true;
    });
  fails("", /no bucket/);
  fails("?region=x", /no bucket/);
  fails("a", /not a bucket's name/);
  fails("buc ket", /not a bucket's name/);
  fails("bucket/../x", /prefix/);
  fails("bucket?end_point=x", /unknown parameter "end_point"; did you mean endpoint\?/);
  fails("bucket?acess_key=a&secret_key=hush", /did you mean access_key\?/);
  fails("bucket?zzzzzzzz=1", /unknown parameter "zzzzzzzz"$/);
  fails("bucket?secret_key=hush", /belong together/);
  fails("bucket?access_key=hush", /belong together/);
  fails("bucket?region=a&region=b", /given twice/);
  fails("bucket?path_style=maybe", /path_style is "maybe"/);
  fails("bucket?endpoint=ftp://x", /not an http or https address/);
  fails("bucket?endpoint=https://u:hush@x", /not an http/);
  fails("bucket?endpoint=https://x/?a=1", /more than a host/);
});
