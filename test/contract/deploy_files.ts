/** Files of workloads, in and out: what every backend with the ability `files` does. */
import assert from "node:assert/strict";
import type { FileStat } from "../../lib/deploy/caps.ts";
import { filePlaces } from "./deploy_files_places.ts";
import { fileTools, type Member, members, text } from "./deploy_files_tools.ts";
import type { DeployBackendUnderTest, Test } from "./deploy_suite.ts";

const TYPE = 0o170000;

export function deployFiles(test: Test, under: DeployBackendUnderTest): void {
  const { backend, withName, files, see, put, get, running } = fileTools(test, under);

  withName("files: what is at a path", "looked", [], async (name) => {
    await running(name);
    await see(name, "mkdir /a; printf 12345 > /a/file; chmod 4750 /a/file; ln -s /a /to");
    const stat = (path: string) => files().stat(name, path);
    const file = (await stat("/a/file"))!;
    assert.deepEqual([file.name, file.size, file.mode & 0o7777], ["file", 5, 0o4750]);
    assert.equal(file.mode & TYPE, 0o100000);
    assert.ok(!Number.isNaN(Date.parse(file.modified)));
    for (const path of ["/a", "/a/", "/a/.", "/to/", "/to/../a"]) {
      const { mode, linkTarget } = (await stat(path)) as FileStat;
      assert.deepEqual([mode & TYPE, linkTarget], [0o040000, undefined], path);
    }
    assert.equal(((await stat("/"))!.mode) & TYPE, 0o040000);
    assert.equal((await stat("/to/file"))!.size, 5);
    for (const path of ["/none", "/a/file/x", "/none/x"]) {
      assert.equal(await stat(path), undefined, path);
      await assert.rejects(files().read(name, path), { code: "not_found" }, path);
    }
    await assert.rejects(stat("a/file"), { code: "argument_invalid" });
    await assert.rejects(files().stat("nobody", "/"), { code: "not_found" });
    await assert.rejects(files().stat(name, "/", { instance: "9" }), { code: "not_found" });
  });

  withName("files: out with owners, and in again", "owned", ["files.owners"], async (name) => {
    await running(name);
    await see(name, "mkdir -p /d/sub /to; echo a > /d/a; chown 1234:4321 /d/a; chown 7:8 /d/sub");
    const { tar } = await files().read(name, "/d");
    // Whole first: an engine may do one at a time.
    const bytes = await new Response(tar as ReadableStream<Uint8Array<ArrayBuffer>>).bytes();
    await files().write(name, "/to", ReadableStream.from([bytes]));
    const script = "cd /to/d; stat -c '%n %u:%g' . a sub";
    assert.equal(await see(name, script), ". 0:0\na 1234:4321\nsub 7:8");
  });

  withName(
    "files: what changed in the image's, and the whole root",
    "changed",
    ["files.changes"],
    async (name) => {
      await running(name, { volumes: [{ name: "changed", target: "/made/volume" }] });
      await see(
        name,
        "mkdir /new; echo n > /new/file; chmod 600 /etc/passwd; rm /etc/group; " +
          "echo v > /made/volume/in; touch /new/gone; rm /new/gone",
      );
      const found = new Map((await files().changes!(name)).map(({ path, kind }) => [path, kind]));
      assert.equal(found.get("/new"), "added");
      assert.equal(found.get("/new/file"), "added");
      assert.equal(found.get("/etc/passwd"), "modified");
      assert.equal(found.get("/etc/group"), "deleted");
      for (const path of ["/new/gone", "/bin", "/made/volume/in"]) {
        assert.equal(found.get(path), undefined, path);
      }
      const archive = await files().export!(name);
      const paths = [...(await members(archive)).keys()].map((path) => path.replace(/^\.\//, ""));
      assert.ok(paths.includes("new/file") && paths.includes("etc/passwd"), `${paths}`);
      assert.ok(
        !paths.some((path) => /^etc\/group$|^proc\/.|^made\/volume\/./.test(path)),
        `${paths}`,
      );
      await backend().power(name, "stop");
      const stopped = (await files().changes!(name)).map(({ path }) => path);
      assert.ok(stopped.includes("/new/file"), `${stopped}`);
      await assert.rejects(files().changes!("nobody"), { code: "not_found" });
      await assert.rejects(files().export!("nobody"), { code: "not_found" });
    },
  );

  withName("files: a link, and not what it leads to", "linking", ["files.links"], async (name) => {
    await running(name);
    await see(name, "ln -s ../etc/passwd /out; ln -s /etc/passwd /link; ln -s /loop /loop");
    const link = (await files().stat(name, "/link"))!;
    assert.deepEqual([link.name, link.linkTarget, link.mode & TYPE], [
      "link",
      "/etc/passwd",
      0o120000,
    ]);
    const { header } = (await get(name, "/out")).all.get("out")!;
    assert.deepEqual([header.type, header.linkpath], ["symlink", "../etc/passwd"]);
    await assert.rejects(files().stat(name, "/loop/x"), { code: "argument_invalid" });
  });

  withName(
    "files: out with modes, times, symbolic links, holes and empty folders",
    "out",
    [],
    async (name) => {
      await running(name);
      await see(
        name,
        "mkdir -p /d/sub/empty; printf one > /d/a; ln -s ../etc/passwd /d/out; " +
          "busybox mkfifo /d/pipe; printf x | dd of=/d/holes bs=1 seek=30000000 2>/dev/null; " +
          "chmod 2751 /d/sub; chmod 4711 /d/a; touch -d @1000000000 /d/a; " +
          "printf '' > '/d/ö and space'",
      );
      const { stat, all } = await get(name, "/d");
      assert.deepEqual([stat.name, stat.mode & TYPE], ["d", 0o040000]);
      const names = ["a", "holes", "out", "pipe", "sub", "sub/empty", "ö and space"];
      assert.deepEqual([...all.keys()].sort(), ["d", ...names.map((one) => `d/${one}`)].sort());
      const of = (path: string) => all.get(path)!.header;
      const a = of("d/a");
      assert.deepEqual([a.type, a.mode, a.mtime], ["file", 0o4711, 1_000_000_000]);
      assert.equal(all.get("d/a")!.content, "one");
      assert.deepEqual([of("d/out").type, of("d/out").linkpath], ["symlink", "../etc/passwd"]);
      assert.equal(of("d/pipe").type, "fifo");
      assert.equal(of("d/sub").mode, 0o2751);
      const holes = all.get("d/holes")!;
      assert.equal(holes.header.size, 30_000_001);
      assert.ok(holes.content.endsWith("\0x") && holes.content.length === 30_000_001);
      assert.equal((await get(name, "/d/a")).all.get("a")!.content, "one");
    },
  );

  withName(
    "files: in with modes, owners, times, links and holes; what is there is replaced",
    "in",
    [],
    async (name) => {
      await running(name);
      const about = { uid: 1234, gid: 4321, mtime: 1_000_000_000 };
      const list: Member[] = [
        { path: "t", type: "directory", mode: 0o2751, ...about },
        { path: "t/own", type: "file", mode: 0o4711, body: text("own"), ...about },
        { path: "t/file", type: "file", mode: 0o711, body: text("new"), ...about },
        { path: "t/second", type: "hardlink", linkpath: "t/file" },
        { path: "t/link", type: "symlink", linkpath: "/etc/passwd" },
        { path: "made/for/it", type: "file", body: text("it") },
      ];
      const look = () =>
        see(
          name,
          "cd /data; stat -c '%n %f %u:%g %Y %h' t t/own t/file; readlink t/link; cat t/second made/for/it",
        );
      const expected = [
        "t 45e9 1234:4321 1000000000 2",
        "t/own 89c9 1234:4321 1000000000 1",
        "t/file 81c9 1234:4321 1000000000 2",
        "/etc/passwd",
        "newit",
      ].join("\n");
      await see(
        name,
        "mkdir -p /data/t; chmod 700 /data; echo old > /data/t/file; echo x > /data/t/link",
      );
      await put(name, "/data", list);
      assert.equal(await look(), expected);
      await put(name, "/data", list);
      assert.equal(await look(), expected);
      assert.equal(
        await see(name, "stat -c %a /data; ls -A /data /data/t | grep -c svc- || true"),
        "700\n0",
      );
      // A program that has the old file open goes on with it.
      await put(name, "/data", [{ path: ".", type: "directory", mode: 0o777 }]);
      assert.equal(await see(name, "stat -c %a /data"), "700", "the folder itself stays");
      for (const path of ["/none", "/none/x"]) {
        await assert.rejects(put(name, path, list), { code: "not_found" }, path);
      }
      await assert.rejects(put(name, "/etc/passwd", list), { code: /argument_invalid|not_found/ });
    },
  );

  withName(
    "files: pipes, and the owners and times of links",
    "special",
    ["files.special"],
    async (name) => {
      await running(name);
      const about = { uid: 1234, gid: 4321, mtime: 1_000_000_000 };
      await put(name, "/", [
        { path: "link", type: "symlink", linkpath: "/etc/passwd", ...about },
        { path: "pipe", type: "fifo", mode: 0o640, ...about },
      ]);
      assert.equal(
        await see(name, "stat -c '%n %f %u:%g %Y %h' /link /pipe"),
        "/link a1ff 1234:4321 1000000000 1\n/pipe 11a0 1234:4321 1000000000 1",
      );
    },
  );

  withName("files: several names of one file stay so", "same", ["files.same"], async (name) => {
    await running(name);
    await see(name, "mkdir /d /to; printf one > /d/a; ln /d/a /d/b");
    const { all } = await get(name, "/d");
    const { type, linkpath } = all.get("d/b")!.header;
    assert.deepEqual([type, linkpath], ["hardlink", "d/a"]);
    const { tar } = await files().read(name, "/d");
    const bytes = await new Response(tar as ReadableStream<Uint8Array<ArrayBuffer>>).bytes();
    await files().write(name, "/to", ReadableStream.from([bytes]));
    assert.equal(await see(name, "stat -c '%h %s' /to/d/a"), "2 3");
  });

  withName("files: several names of a setuid file", "linked", ["files.linked"], async (name) => {
    await running(name);
    await put(name, "/", [
      { path: "one", type: "file", mode: 0o4711, body: text("one"), uid: 1234 },
      { path: "other", type: "hardlink", linkpath: "one" },
    ]);
    assert.equal(await see(name, "stat -c '%f %u %h' /one /other"), "89c9 1234 2\n89c9 1234 2");
  });

  withName("files: what comes out goes in again", "again", [], async (name) => {
    await running(name);
    await see(
      name,
      "mkdir -p /from/x /to; seq 200000 > /from/x/numbers; " +
        "printf end | dd of=/from/x/holes bs=1 seek=3000000 2>/dev/null",
    );
    const { tar } = await files().read(name, "/from");
    // Whole first: an engine may do one at a time.
    const bytes = await new Response(tar as ReadableStream<Uint8Array<ArrayBuffer>>).bytes();
    await files().write(name, "/to", ReadableStream.from([bytes]));
    const script = "cd /to/from; (cd /from; find . -type f | sort | xargs sha256sum) | " +
      "sha256sum -c >/dev/null && stat -c '%h %s' x/numbers x/holes";
    assert.equal(await see(name, script), "1 1288895\n1 3000003");
  });

  withName(
    "files: holes come out and go in again as holes",
    "round",
    ["files.holes"],
    async (name) => {
      await running(name);
      await see(
        name,
        "mkdir -p /from/x/y /to; seq 200000 > /from/x/numbers; ln /from/x/numbers /from/x/same; " +
          "printf end | dd of=/from/x/y/holes bs=1 seek=50000000 2>/dev/null; chown -R 7:8 /from",
      );
      const { tar } = await files().read(name, "/from");
      await files().write(name, "/to", tar);
      assert.equal(
        await see(
          name,
          "cd /to/from; (cd /from; find . -type f | sort | xargs sha256sum) | sha256sum -c >/dev/null && " +
            "stat -c '%u:%g %h %s' x/same x/y/holes; test $(du -k x/y/holes | cut -f1) -lt 1000 && echo sparse",
        ),
        "7:8 2 1288895\n7:8 1 50000003\nsparse",
      );
    },
  );

  filePlaces(test, under);
}
