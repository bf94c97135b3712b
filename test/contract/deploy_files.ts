/** Files of workloads, in and out: what every backend with the ability `files` does. */
import assert from "node:assert/strict";
import type { FileStat, InstanceOptions } from "../../lib/deploy/caps.ts";
import type { TarHeader } from "../../lib/oci/tar.ts";
import { readTar } from "../../lib/oci/tar_read.ts";
import { type TarFields, TarWriter, writeTar } from "../../lib/oci/tar_write.ts";
import type { DeployBackendUnderTest, Need, Test } from "./deploy_suite.ts";
import { execute, quickSpec, shell } from "./deploy_tools.ts";

const TYPE = 0o170000;
const text = (value: string) => new TextEncoder().encode(value);

type Member = TarFields & { body?: Uint8Array };

/** An archive that ends within the second of its files, which has this path. */
function brokenOff(path: string): Uint8Array[] {
  const writer = new TarWriter();
  return [
    writer.header({ path: "first", type: "file", size: 1 }),
    text("1"),
    writer.data(text("1")),
    writer.header({ path, type: "file", size: 100_000 }),
    new Uint8Array(5000),
  ];
}

/** What an archive holds, by path: its header and its content. */
async function members(
  tar: ReadableStream<Uint8Array>,
): Promise<Map<string, { header: TarHeader; content: string }>> {
  const found = new Map<string, { header: TarHeader; content: string }>();
  for await (const { header, body } of readTar(tar)) {
    const content = await new Response(body as ReadableStream<Uint8Array<ArrayBuffer>>).text();
    found.set(header.path, { header, content });
  }
  return found;
}

export function deployFiles(test: Test, under: DeployBackendUnderTest): void {
  const { backend, image } = under;
  const withName = (
    title: string,
    name: string,
    needs: readonly Need[],
    fn: (name: string) => Promise<void>,
  ) =>
    test(title, ["files", "exec", ...needs], async () => {
      try {
        await fn(name);
      } finally {
        await backend().delete(name);
      }
    });
  const files = () => backend().caps.files!;
  const see = async (name: string, script: string) => {
    const { code, stdout, stderr } = await execute(backend(), name, { command: shell(script) });
    assert.equal(code, 0, stderr);
    return stdout.trim();
  };
  const put = (name: string, path: string, list: Member[], options?: InstanceOptions) =>
    files().write(name, path, writeTar(list), options);
  const get = async (name: string, path: string, options?: InstanceOptions) => {
    const { stat, tar } = await files().read(name, path, options);
    return { stat, all: await members(tar) };
  };
  const running = (name: string, more: Record<string, unknown> = {}) =>
    backend().apply(quickSpec(name, image, { command: ["sleep", "100000"], ...more }));

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

  withName(
    "files: no link leads out of the container, and no member out of the folder",
    "confined",
    [],
    async (name) => {
      await running(name);
      // An absolute link is the container's, and never the host's.
      const own = "of the container";
      await see(
        name,
        `echo ${own} > /etc/svc-test; mkdir -p /d/in /other; ln -s /etc/svc-test /d/file; ln -s /etc /d/etc; ` +
          "ln -s ../../../../../../../.. /d/up; ln -s /other /d/other",
      );
      assert.equal((await get(name, "/d/etc/svc-test")).all.get("svc-test")!.content, `${own}\n`);
      assert.equal(
        (await get(name, "/d/up/etc/svc-test")).all.get("svc-test")!.content,
        `${own}\n`,
      );
      assert.equal(
        (await get(name, "/../../d/../../etc/svc-test")).all.get("svc-test")!.content,
        `${own}\n`,
      );
      const file = (path: string): Member => ({ path, type: "file", body: text("out") });
      const refused = async (list: Member[], code: string) => {
        await assert.rejects(put(name, "/d/in", list), { code }, JSON.stringify(list));
      };
      for (const path of ["../up", "a/../../up", "..", "/../up"]) {
        await refused([file(path)], "archive_invalid");
      }
      // Links that the archive brings along.
      for (const linkpath of ["/other", "../../other", "/", ".."]) {
        const link: Member = { path: "link", type: "symlink", linkpath };
        await refused([link, file("link/x")], "argument_invalid");
        await refused([link, { path: "link/y", type: "directory" }], "argument_invalid");
      }
      for (const linkpath of ["../../etc/svc-test", "../file", "none"]) {
        await refused([{ path: "hard", type: "hardlink", linkpath }], "archive_invalid");
      }
      await refused([
        { path: "link", type: "symlink", linkpath: "/etc" },
        { path: "hard", type: "hardlink", linkpath: "link/svc-test" },
      ], "argument_invalid");
      for (const type of ["char", "block"] as const) {
        await refused([{ path: "device", type, devMajor: 1, devMinor: 3 }], "denied");
      }
      // An absolute name is one below the folder.
      await put(name, "/d/in", [file("/etc/inside")]);
      assert.equal(await see(name, "cat /d/in/etc/inside"), "out");
      // Nothing came to be elsewhere.
      assert.equal(
        await see(name, "ls -A /other; cat /etc/svc-test; ls / | grep -c '^up$' || true"),
        `${own}\n0`,
      );
      // A link that was there: its place is taken, what it leads to stays as it is.
      await put(name, "/d", [file("file")]);
      assert.equal(await see(name, "cat /d/file; cat /etc/svc-test"), `out${own}`);
      // A folder where a file is to go, and the other way round.
      await assert.rejects(put(name, "/d", [file("in")]), { code: "conflict" });
      await assert.rejects(put(name, "/d", [{ path: "file", type: "directory" }]), {
        code: "conflict",
      });
      await assert.rejects(put(name, "/d", [file("file/below")]), { code: "conflict" });
    },
  );

  withName(
    "files: what is in memory, while it runs",
    "memory",
    ["files.memory", "spec.tmpfs"],
    async (name) => {
      await running(name, { tmpfs: ["/memory"] });
      await see(name, "echo memory > /memory/file");
      assert.equal((await get(name, "/memory/file")).all.get("file")!.content, "memory\n");
      await put(name, "/memory", [{ path: "more", type: "file", body: text("more") }]);
      assert.equal(await see(name, "cat /memory/more"), "more");
    },
  );

  withName(
    "files: volumes, while it runs and when it is stopped",
    "places",
    ["spec.volumes.name"],
    async (name) => {
      const volumes = [
        { name: "places-data", target: "/data" },
      ];
      try {
        await running(name, { volumes });
        await see(name, "echo data > /data/file; echo own > /own");
        const content = async (path: string) =>
          (await get(name, path)).all.get(path.slice(path.lastIndexOf("/") + 1))?.content;
        assert.deepEqual(await Promise.all(["/data/file", "/own"].map(content)), [
          "data\n",
          "own\n",
        ]);
        const more: Member[] = [{ path: "more", type: "file", body: text("more") }];
        await put(name, "/data", more);
        assert.equal(await see(name, "cat /data/more"), "more");
        await backend().power(name, "stop");
        assert.deepEqual(await Promise.all(["/data/file", "/data/more", "/own"].map(content)), [
          "data\n",
          "more",
          "own\n",
        ]);
        await put(name, "/data", [{ path: "later", type: "file", body: text("later") }]);
        await put(name, "/", [{ path: "later", type: "file", body: text("later") }]);
        await under.reopen();
        assert.equal((await files().stat(name, "/data/later"))!.size, 5);
        await backend().power(name, "start");
        assert.equal(await see(name, "cat /data/later /later"), "laterlater");
      } finally {
        await backend().delete(name);
        if (backend().caps.volumes) {
          for (const { name } of volumes) await backend().caps.volumes!.remove(name);
        }
      }
    },
  );

  withName(
    "files: beside a volume that is read-only, while it runs and when it is stopped",
    "beside",
    ["spec.volumes.name", "files.beside"],
    async (name) => {
      const volumes = [
        { name: "beside-data", target: "/data" },
        { name: "beside-fixed", target: "/fixed", readOnly: true },
      ];
      const member: Member[] = [{ path: "more", type: "file", body: text("more") }];
      try {
        await running(name, { volumes });
        await assert.rejects(put(name, "/fixed", member), { code: "conflict" });
        await backend().power(name, "stop");
        await put(name, "/data", member);
        await assert.rejects(put(name, "/fixed", member), { code: "conflict" });
        await backend().power(name, "start");
        assert.equal(await see(name, "cat /data/more; ls /fixed"), "more");
      } finally {
        await backend().delete(name);
        if (backend().caps.volumes) {
          for (const { name } of volumes) await backend().caps.volumes!.remove(name);
        }
      }
    },
  );

  withName(
    "files: an archive that breaks off, and who leaves in the middle",
    "broken",
    [],
    async (name) => {
      await running(name);
      await see(
        name,
        "mkdir /d; dd if=/dev/urandom of=/d/big bs=1M count=40 2>/dev/null; echo old > /d/file",
      );
      const { tar } = await files().read(name, "/d");
      const reader = tar.getReader();
      await reader.read();
      await reader.cancel();
      const abort = new AbortController();
      const read = await files().read(name, "/d", { signal: abort.signal });
      abort.abort(new Error("enough"));
      await assert.rejects(
        new Response(read.tar as ReadableStream<Uint8Array<ArrayBuffer>>).bytes(),
        /enough/,
      );
      const begun = brokenOff("new");
      await assert.rejects(files().write(name, "/d", ReadableStream.from(begun)), {
        code: "archive_invalid",
      });
      const broken = async function* () {
        yield* begun;
        await Promise.resolve();
        throw new Error("the line is cut");
      };
      await assert.rejects(files().write(name, "/d", ReadableStream.from(broken())), /line is cut/);
      const waiting = new AbortController();
      const endless = new ReadableStream<Uint8Array>({ start: (it) => it.enqueue(begun[0]) });
      const written = files().write(name, "/d", endless, { signal: waiting.signal });
      waiting.abort(new Error("no more"));
      await assert.rejects(written, /no more/);
      await assert.rejects(
        files().write(name, "/d", ReadableStream.from([text("no archive".repeat(100))])),
        { code: "archive_invalid" },
      );
      assert.equal(await see(name, "cat /d/file"), "old");
    },
  );

  withName(
    "files: the old one is there until the new one is whole, and nothing half-made is left",
    "whole",
    ["files.whole"],
    async (name) => {
      await running(name);
      await see(name, "mkdir /d; echo old > /d/file");
      await assert.rejects(files().write(name, "/d", ReadableStream.from(brokenOff("file"))), {
        code: "archive_invalid",
      });
      assert.equal(await see(name, "cat /d/file; ls -A /d"), "old\nfile\nfirst");
    },
  );

  withName(
    "files: of the replica that is named",
    "many",
    ["spec.replicas"],
    async (name) => {
      await running(name, { replicas: 2 });
      const instance = `${name}-1`;
      await put(name, "/", [{ path: "mine", type: "file", body: text("1") }], { instance });
      assert.equal((await files().stat(name, "/mine", { instance: "1" }))?.size, 1);
      assert.equal(await files().stat(name, "/mine"), undefined);
    },
  );

  withName("files: while it is paused", "still", ["pause"], async (name) => {
    await running(name);
    await see(name, "echo mine > /mine");
    await backend().caps.pause!.pause(name);
    assert.equal((await get(name, "/mine")).all.get("mine")!.content, "mine\n");
  });
}
