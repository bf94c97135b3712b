import { equal, ok } from "node:assert/strict";
import { asSvcError, CATALOGUE, fileTrouble, isAbort, SvcError, tellsFullDisk } from "./errors.ts";

Deno.test("errors: what is thrown becomes one of the catalogue", () => {
  const full = Object.assign(new Error("no space left"), { code: "ENOSPC" });
  equal(asSvcError(full, "Cannot store x").code, "storage_full");
  equal(asSvcError(full, "Cannot store x").message, "Cannot store x: no space left");
  equal(asSvcError("text").code, "internal");
  equal(asSvcError(new DOMException("gone", "AbortError")).code, "cancelled");
  equal(asSvcError(new DOMException("late", "TimeoutError")).code, "timeout");
  ok(isAbort(new SvcError("cancelled", "x")));
});

Deno.test("errors: words of other programs tell a full disk", () => {
  ok(tellsFullDisk("cp: error writing '/x': No space left on device"));
  ok(tellsFullDisk("write /x: disk quota exceeded"));
  ok(tellsFullDisk("writing container state: database or disk is full"));
  equal(tellsFullDisk("no such device"), false);
});

Deno.test("errors: every entry has help, a status and an exit code", () => {
  for (const [code, entry] of Object.entries(CATALOGUE)) {
    ok(entry.help.length > 0 && entry.status >= 400 && entry.status < 600, code);
    ok(entry.exit === 1 || entry.exit === 2, code);
  }
});

Deno.test("errors: what keeps a file from being read, without its path", async () => {
  const trouble = (path: string) => Deno.readTextFile(path).then(() => "", fileTrouble);
  equal(await trouble("/nowhere/at/all"), "there is no such file");
  equal(await trouble("/"), "it is a directory");
  equal(fileTrouble(Object.assign(new Error("Bad: '/x'"), { code: "EIO" })), "Bad");
  equal(fileTrouble(new Error("it is too long: by 1")), "it is too long: by 1");
});
