import assert from "node:assert/strict";
import { SvcError } from "../../base/errors.ts";
import { parseGitUrl } from "./git_url.ts";

Deno.test("git addresses and what they name", () => {
  const cases: [string, ReturnType<typeof parseGitUrl>][] = [
    ["https://h.example/a/b.git", { remote: "https://h.example/a/b.git" }],
    ["https://h.example/a/b.git#v1:sub/dir/", {
      remote: "https://h.example/a/b.git",
      ref: "v1",
      subdir: "sub/dir",
    }],
    ["https://h.example/a.git#:sub", { remote: "https://h.example/a.git", subdir: "sub" }],
    ["git@h.example:a/b", { remote: "git@h.example:a/b" }],
    ["git@h.example:a/b.git#main", { remote: "git@h.example:a/b.git", ref: "main" }],
    ["ssh://git@h.example:22/a", { remote: "ssh://git@h.example:22/a" }],
    ["git://h.example/a", { remote: "git://h.example/a" }],
    ["github.com/a/b", { remote: "https://github.com/a/b" }],
    ["https://h.example/a.git?branch=x&subdir=y&keep-git-dir=1&checksum=abc1234", {
      remote: "https://h.example/a.git",
      ref: "x",
      subdir: "y",
      keepGitDir: true,
      checksum: "abc1234",
    }],
    ["https://h.example/a.tar.gz", undefined],
    ["folder/a.git", undefined],
    ["./github.com/a/b", undefined],
    ["a", undefined],
  ];
  for (const [text, wanted] of cases) assert.deepEqual(parseGitUrl(text), wanted, text);
  const refused = [
    "git@h.example:a#--upload-pack=x",
    "https://h.example/a.git#:../x",
    "https://h.example/a.git?depth=1",
  ];
  for (const text of refused) assert.throws(() => parseGitUrl(text), SvcError, text);
});
