/** Files of workloads of the host engine beyond the contract: what the host has to be safe from. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { hostPaths } from "../../lib/deploy/host/paths.ts";
import { readTar } from "../../lib/oci/tar_read.ts";
import { type TarFields, writeTar } from "../../lib/oci/tar_write.ts";
import { bindMount } from "../../lib/sys/mount.ts";
import { readXattrs } from "../../lib/sys/xattr.ts";
import { eventually } from "../waits.ts";
import { execute, quickSpec, shell } from "./deploy_tools.ts";
import type { OwnTest } from "./deploy_suite.ts";
import type { HostUnderTest } from "./host_backend.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

async function contents(tar: ReadableStream<Uint8Array>): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for await (const { header, body } of readTar(tar)) {
    found[header.path] = await new Response(body as ReadableStream<Uint8Array<ArrayBuffer>>).text();
  }
  return found;
}

export function bareFiles(test: OwnTest, under: HostUnderTest): void {
  const { backend, image, dataDir, allowed } = under;
  const files = () => backend().caps.files!;
  const withName = (title: string, name: string, fn: (name: string) => Promise<void>) =>
    test(title, async () => {
      try {
        await fn(name);
      } finally {
        await backend().delete(name);
      }
    });
  const running = (name: string, more: Record<string, unknown> = {}) =>
    backend().apply(quickSpec(name, image, { command: ["sleep", "100000"], ...more }));
  const see = async (name: string, script: string) => {
    const { code, stdout, stderr } = await execute(backend(), name, { command: shell(script) });
    assert.equal(code, 0, stderr);
    return stdout.trim();
  };
  const put = (name: string, path: string, list: (TarFields & { body?: Uint8Array })[]) =>
    files().write(name, path, writeTar(list));

  withName(
    "files: links that are swapped meanwhile never lead to the host",
    "swaps",
    async (name) => {
      const secret = join(dataDir, "swapped-secret");
      await Deno.mkdir(secret);
      await Deno.writeTextFile(join(secret, "file"), "of the host");
      await running(name);
      const up = "../../../../../../../../../../../..";
      await see(
        name,
        "mkdir -p /d/real; echo own > /d/real/file; ln -s real /d/x; touch /tmp/swap",
      );
      const swapping = execute(backend(), name, {
        command: shell(
          `cd /d; while [ -e /tmp/swap ]; do for to in ${secret} real ${up}${secret} real; do ` +
            "ln -s $to next; busybox mv -T next x; done; done",
        ),
      });
      const seen = new Set<string>();
      let wrote = 0;
      for (let round = 0; round < 50; round++) {
        const stat = await files().stat(name, "/d/x/file").catch(() => undefined);
        if (stat) seen.add(String(stat.size));
        const read = await files().read(name, "/d/x/file").catch(() => undefined);
        if (read) { for (const text of Object.values(await contents(read.tar))) seen.add(text); }
        const changed = await files().changes!(name);
        for (const { path } of changed) if (path.startsWith("/d/x/")) seen.add(path);
        const member = { path: "x/new", type: "file" as const, body: bytes("new") };
        await put(name, "/d", [member]).then(() => wrote++, () => {/* the link was there */});
      }
      await see(name, "rm /tmp/swap");
      await swapping;
      assert.deepEqual([...seen].filter((text) => text !== "4" && text !== "own\n"), []);
      assert.ok(seen.size > 0 && wrote > 0, "some of it was in time");
      assert.deepEqual(await Array.fromAsync(Deno.readDir(secret), (entry) => entry.name), [
        "file",
      ]);
    },
  );

  withName("files: changes, exactly", "exactly", async (name) => {
    await running(name);
    assert.deepEqual(await files().changes!(name), [], "what is mounted is no change");
    await see(
      name,
      "rm -r /srv; mkdir -p /srv/deep; touch /srv/deep/x /tmp/sock; mv /etc/group /etc/other; " +
        "ln -s / /root/out; rm /bin/wget; mkdir /bin/wget",
    );
    assert.deepEqual(
      (await files().changes!(name)).map(({ path, kind }) => `${kind[0]} ${path}`),
      [
        ...["m /bin", "m /bin/wget", "m /etc", "d /etc/group", "a /etc/other", "m /root"],
        ...["a /root/out", "m /srv", "a /srv/deep", "a /srv/deep/x", "d /srv/index.html"],
        ...["m /tmp", "a /tmp/sock"],
      ],
    );
  });

  withName("files: devices and FIFOs are told of, and nobody opens them", "nodes", async (name) => {
    await running(name);
    await see(
      name,
      "mkdir /d; busybox mknod /d/zero c 1 5; busybox mkfifo /d/fifo; echo x > /d/last",
    );
    const found: Record<string, string> = {};
    const { tar } = await files().read(name, "/d");
    for await (const { header } of readTar(tar)) {
      found[header.path] = `${header.type} ${header.devMajor}:${header.devMinor}`;
    }
    assert.deepEqual(found, {
      "d": "directory 0:0",
      "d/fifo": "fifo 0:0",
      "d/last": "file 0:0",
      "d/zero": "char 1:5",
    });
  });

  test("files: the kernel's files are not read with the server's rights", async () => {
    const name = "kernels";
    try {
      await under.reopen(undefined, ["pidMode"]);
      await running(name, { pidMode: "host" });
      for (const path of ["/proc/self/environ", "/proc/1/environ", "/sys/kernel/notes", "/proc"]) {
        await assert.rejects(files().read(name, path), { code: "denied" }, path);
      }
      await assert.rejects(put(name, "/proc/sys", []), { code: "denied" });
      await assert.rejects(put(name, "/", [{ path: "proc/x", type: "file" }]), { code: "denied" });
      assert.equal((await files().stat(name, "/proc/self/exe"))?.linkTarget, undefined);
      // Links that only the kernel follows lead out of the container.
      await assert.rejects(files().stat(name, "/proc/self/cwd/"), { code: "argument_invalid" });
      const whole = await files().read(name, "/");
      const paths: string[] = [];
      for await (const { header } of readTar(whole.tar)) paths.push(header.path);
      assert.ok(paths.includes("./proc") && paths.includes("./etc/passwd"), paths.join(" "));
      assert.deepEqual(paths.filter((path) => /^\.\/(proc|sys)\/./.test(path)), []);
    } finally {
      await backend().delete(name);
      await under.reopen();
    }
  });

  withName(
    "files: attributes are kept, but for those that belong to the host",
    "xattrs",
    async (name) => {
      const source = join(allowed, "attributes");
      await Deno.mkdir(source);
      await running(name, { mounts: [{ source, target: "/mnt" }] });
      const capability = new Uint8Array(20);
      capability.set([1, 0, 0, 2, 0, 4]);
      await put(name, "/mnt", [{
        path: "file",
        type: "file",
        body: bytes("x"),
        uid: 5,
        mode: 0o4755,
        xattrs: new Map([
          ["user.own", bytes("1")],
          ["security.capability", capability],
          ["trusted.overlay.opaque", bytes("y")],
        ]),
      }]);
      assert.deepEqual([...readXattrs(join(source, "file")).keys()], [
        "security.capability",
        "user.own",
      ]);
      const { tar } = await files().read(name, "/mnt/file");
      for await (const { header } of readTar(tar)) {
        assert.deepEqual([...header.xattrs.keys()], ["security.capability", "user.own"]);
        assert.deepEqual([header.uid, header.mode], [5, 0o4755]);
      }
    },
  );

  withName(
    "files: folders of the host of a stopped workload, by the policy",
    "binds",
    async (name) => {
      const [source, other] = [join(allowed, "bound"), join(dataDir, "bound-secret")];
      await Deno.mkdir(source);
      await Deno.mkdir(other);
      await Deno.writeTextFile(join(source, "file"), "own");
      await Deno.writeTextFile(join(other, "file"), "secret");
      await running(name, { mounts: [{ source, target: "/mnt", readOnly: true }] });
      await backend().power(name, "stop");
      const read = async () => await contents((await files().read(name, "/mnt/file")).tar);
      assert.deepEqual(await read(), { file: "own" });
      const one = [{ path: "new", type: "file" as const }];
      await assert.rejects(put(name, "/mnt", one), { code: "conflict" });
      await Deno.rename(source, `${source}.was`);
      await Deno.symlink(other, source);
      await assert.rejects(read(), { code: "denied" });
      await Deno.remove(source);
      // Nothing stays mounted, and no copy is under way any more.
      const mounts = () => Deno.readTextFile("/proc/self/mountinfo");
      await eventually(
        "nothing is mounted",
        async () => !/\/run\/[0-9a-f]+\/roots\//.test(await mounts()),
      );
    },
  );

  withName(
    "files: what a server that was killed left mounted goes at the next start",
    "killed",
    async (name) => {
      await running(name);
      await backend().power(name, "stop");
      const { roots } = hostPaths(under.engine, dataDir, join(dataDir, "run"));
      const mounted = async () =>
        (await Deno.readTextFile("/proc/self/mountinfo")).split("\n").filter((line) =>
          line.includes(` ${roots}/`)
        ).length;
      // Somebody who neither reads on nor leaves.
      const { tar } = await files().read(name, "/bin");
      assert.ok(await mounted() > 0);
      await Deno.writeTextFile(join(allowed, "kept"), "1");
      await under.reopen(async () => {
        await Deno.mkdir(join(roots, "left"), { recursive: true });
        bindMount(allowed, join(roots, "left"));
      });
      assert.equal(await mounted(), 0);
      assert.equal(await Deno.readTextFile(join(allowed, "kept")), "1");
      await assert.rejects(contents(tar), { name: "AbortError" });
    },
  );
}
