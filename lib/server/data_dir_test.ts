import assert from "node:assert/strict";
import { type ErrorCode, SvcError } from "../base/errors.ts";
import { defaultDataDir, openDataDir } from "./data_dir.ts";

async function scratch(body: (dir: string) => Promise<void>) {
  const dir = await Deno.makeTempDir();
  try {
    await body(dir);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

const refuses = (path: string, code: ErrorCode, message: RegExp) =>
  assert.rejects(openDataDir(path), (error) => {
    assert(error instanceof SvcError, String(error));
    assert.equal(error.code, code);
    assert.match(error.message, message);
    return true;
  });

Deno.test("data dir: made where missing, opened again afterwards", () =>
  scratch(async (dir) => {
    const path = `${dir}/a/b`;
    (await openDataDir(path))[Symbol.dispose]();
    assert.equal(JSON.parse(await Deno.readTextFile(`${path}/svc-data.json`)).format, 1);
    await Deno.mkdir(`${path}/registry`);
    (await openDataDir(path))[Symbol.dispose]();
  }));

Deno.test("data dir: one server at a time", () =>
  scratch(async (dir) => {
    const first = await openDataDir(dir);
    await refuses(
      dir,
      "data_dir_locked",
      new RegExp(`the svc server with process id ${Deno.pid} is using it`),
    );
    first[Symbol.dispose]();
    (await openDataDir(dir))[Symbol.dispose]();
  }));

Deno.test("data dir: someone else's files are left as they are", () =>
  scratch(async (dir) => {
    await Deno.writeTextFile(`${dir}/thesis.txt`, "mine");
    await refuses(dir, "data_dir_foreign", /other files \(thesis\.txt\)/);
    assert.deepEqual([...Deno.readDirSync(dir)].map((e) => e.name), ["thesis.txt"]);
  }));

Deno.test("data dir: a fresh volume's lost+found does not matter", () =>
  scratch(async (dir) => {
    await Deno.mkdir(`${dir}/lost+found`);
    (await openDataDir(dir))[Symbol.dispose]();
  }));

Deno.test("data dir: a newer format and a damaged marker are refused", () =>
  scratch(async (dir) => {
    await Deno.writeTextFile(`${dir}/svc-data.json`, '{"format":2}');
    await refuses(dir, "data_dir_foreign", /newer svc wrote it \(format 2, this one knows 1\)/);
    await Deno.writeTextFile(`${dir}/svc-data.json`, "{");
    await refuses(dir, "data_dir_foreign", /svc-data\.json is damaged/);
  }));

Deno.test("data dir: a file in its place", () =>
  scratch(async (dir) => {
    await Deno.writeTextFile(`${dir}/file`, "");
    await refuses(`${dir}/file`, "config_invalid", /it is not a directory/);
    await refuses(`${dir}/file/below`, "config_invalid", /it is not a directory/);
  }));

Deno.test(
  "data dir: a place where nothing can be made",
  {
    ignore: Deno.build.os !== "linux",
  },
  () =>
    refuses("/proc/svc-data", "config_invalid", /^Cannot use \/proc\/svc-data as data directory: /),
);

Deno.test("data dir: the platform's own place", () => {
  const at = (os: string, uid: number | null, env: Record<string, string>) =>
    defaultDataDir({ os, uid, env });
  assert.equal(at("linux", 0, { HOME: "/root" }), "/var/lib/svc");
  assert.equal(at("linux", 1000, { HOME: "/home/a" }), "/home/a/.local/share/svc");
  assert.equal(at("linux", 1000, { HOME: "/home/a", XDG_DATA_HOME: "/d" }), "/d/svc");
  assert.equal(at("darwin", 501, { HOME: "/Users/a" }), "/Users/a/Library/Application Support/svc");
});

Deno.test("data dir: for its owner alone, one that was open too", {
  ignore: Deno.build.os === "windows",
}, () =>
  scratch(async (dir) => {
    const mode = async (path: string) => (await Deno.stat(path)).mode! & 0o777;
    const path = `${dir}/a/b`;
    (await openDataDir(path))[Symbol.dispose]();
    assert.equal(await mode(path), 0o700);
    await Deno.chmod(path, 0o755);
    using opened = await openDataDir(path);
    assert.equal(await mode(path), 0o700);
    assert.equal(opened.closed, true);
    // What is refused is left as it is.
    const foreign = `${dir}/foreign`;
    await Deno.mkdir(foreign, { mode: 0o755 });
    await Deno.writeTextFile(`${foreign}/thesis.txt`, "mine");
    await refuses(foreign, "data_dir_foreign", /other files/);
    assert.equal(await mode(foreign), 0o755);
  }));

Deno.test("data dir: keys that an operator put there before the first start", () =>
  scratch(async (dir) => {
    await Deno.mkdir(`${dir}/auth`);
    await Deno.writeTextFile(`${dir}/auth/authorized_keys`, "ssh-ed25519 AAAA\n");
    (await openDataDir(dir))[Symbol.dispose]();
    const other = `${dir}/other`;
    await Deno.mkdir(`${other}/auth`, { recursive: true });
    await Deno.writeTextFile(`${other}/auth/tokens.db`, "another program's");
    await refuses(other, "data_dir_foreign", /other files \(auth\)/);
  }));
