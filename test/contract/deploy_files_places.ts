/** Where files of workloads may go and come from, and when: a part of deploy_files.ts. */
import assert from "node:assert/strict";
import { brokenOff, fileTools, type Member, text } from "./deploy_files_tools.ts";
import type { DeployBackendUnderTest, Test } from "./deploy_suite.ts";

export function filePlaces(test: Test, under: DeployBackendUnderTest): void {
  const { backend, withName, files, see, put, get, running } = fileTools(test, under);

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
