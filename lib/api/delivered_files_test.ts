/** What a server takes as files of a deployment. */
import assert from "node:assert/strict";
import { checkDeliveredFiles, MAX_FILE_BYTES, MAX_FILES } from "./delivered_files.ts";

const file = {
  ...{ target: "/etc/app.conf", content: btoa("a=b\n"), mode: 0o444 },
  ...{ uid: 0, gid: 0, secret: false },
};

Deno.test("delivered files: a list of files passes, none is an empty list", () => {
  assert.deepEqual(checkDeliveredFiles(undefined), []);
  assert.deepEqual(checkDeliveredFiles([file]), [file]);
  const largest = { ...file, content: btoa("x".repeat(MAX_FILE_BYTES)) };
  assert.equal(checkDeliveredFiles([largest]).length, 1);
});

Deno.test("delivered files: anything else is refused by name, without its content", () => {
  const wrong: [unknown, RegExp][] = [
    [{}, /expected a list/],
    [Array(MAX_FILES + 1).fill(file), /expected a list of up to/],
    [[null], /files\[0\]\.target: expected a path/],
    [[{ ...file, target: "etc/x" }], /"etc\/x": its target is not absolute/],
    [[{ ...file, target: "/a/../etc/passwd" }], /not written plainly/],
    [[{ ...file, target: "/" }], /the root/],
    [[{ ...file, target: "/a\0b" }], /is no path/],
    [[file, file], /two files have the target \/etc\/app\.conf/],
    [[{ ...file, content: "s e c r e t" }], /files\[0\]\.content: expected base64/],
    [[{ ...file, content: btoa("x".repeat(MAX_FILE_BYTES + 1)) }], /1024001 bytes/],
    [[{ ...file, mode: 0o4755 }], /up to 0777/],
    [[{ ...file, mode: "0444" }], /up to 0777/],
    [[{ ...file, uid: -1 }], /uid and gid/],
    [[{ ...file, gid: 2 ** 32 - 1 }], /uid and gid/],
    [[{ ...file, secret: 1 }], /secret: expected true or false/],
    [[{ ...file, source: "/etc/shadow" }], /a field that is none of/],
  ];
  for (const [value, message] of wrong) {
    assert.throws(() => checkDeliveredFiles(value), (error: Error & { code: string }) => {
      assert.equal(error.code, "argument_invalid");
      assert.match(error.message, message);
      assert.doesNotMatch(error.message, /s e c r e t|xxxx/);
      return true;
    });
  }
});
