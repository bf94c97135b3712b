/** Workloads and callers that do what they should not: what comes of it is bounded, and told. */
import assert from "node:assert/strict";
import { hasFuse } from "../../sys/fuse.ts";
import { canMount } from "../../sys/mount.ts";
import type { Duplex } from "../duplex.ts";
import { hostFolder } from "../files/host_node.ts";
import { KnownExports } from "../known/export.ts";
import { NinepClient } from "../ninep/client.ts";
import { serveNinep } from "../ninep/server.ts";
import { duplexPair } from "../testing.ts";
import { mountFuse } from "./mount.ts";
import { mountTest, run } from "./testing.ts";

mountTest(
  "a full disk of the caller is told as such, and nothing else suffers",
  [],
  async (mounted) => {
    await run(mounted, "mkdir $F/small; mount -t tmpfs -o size=1m tmpfs $F/small");
    try {
      const said = await run(
        mounted,
        `cd $M/small; echo kept > kept
      { head -c 4000000 /dev/zero > large; } 2>&1 && echo WRITTEN || true
      { dd if=/dev/zero of=again bs=64k count=64 conv=fsync; } 2>&1 && echo WRITTEN || true
      cat kept; rm -f large again; echo more > after; cat after; echo x > $M/beside`,
      );
      assert.match(said, /No space left[^]*No space left[^]*kept\nmore$/);
      assert.ok(!said.includes("WRITTEN"), said);
    } finally {
      await run(mounted, "umount -l $F/small");
    }
  },
);

mountTest(
  "links, devices, FIFOs, setuid, odd names: they stay in the folder",
  [],
  async (mounted) => {
    const said = await run(
      mounted,
      `cd $M; echo mine > $B/secret; chmod 600 $B/secret
    ln -s $B/secret link; ln -s ../../../../../../etc/passwd up; mkfifo fifo
    mknod device c 1 3 2>/dev/null && echo DEVICE || true; mknod block b 7 0 2>/dev/null && echo DEVICE || true
    cp /bin/true own; chmod 6755 own; stat -c %a $F/own
    touch "$(printf 'a\\nb')" "$(printf 'x\\033[31m')" -- -rf
    ln $B/secret hard 2>&1 || true; mv $B/secret . && mv secret $B/secret; ls -A $F | wc -l`,
    );
    assert.match(said, /^755\n.*[Ii]nvalid cross-device link[^]*\n\d+$/);
    assert.ok(!said.includes("DEVICE"), said);
    assert.equal(await run(mounted, "stat -c '%F' $F/link $F/fifo"), "symbolic link\nfifo");
  },
);

/** How a caller goes wrong, once it is to. */
const WRONG: Record<string, (stream: Duplex, bytes: Uint8Array) => Promise<void>> = {
  "answers rubbish": (stream, bytes) => stream.write(bytes.map((byte) => byte ^ 0x5a)),
  "answers with sizes that are not true": (stream, bytes) => {
    const wrong = bytes.slice();
    wrong.set([255, 255, 255, 127]);
    return stream.write(wrong);
  },
  "stops within an answer": async (stream, bytes) => {
    await stream.write(bytes.subarray(0, 5));
    stream.reset();
  },
  "is gone": (stream) => Promise.resolve(stream.reset()),
};

for (const [what, wrong] of Object.entries(WRONG)) {
  Deno.test({
    name: `fuse over 9P: a caller that ${what}: calls fail, and the mount ends`,
    ignore: !hasFuse() || !canMount(),
    fn: async () => {
      const base = await Deno.realPath(await Deno.makeTempDir({ prefix: "svc-hostile-" }));
      const [at, folder] = [`${base}/mount`, `${base}/folder`];
      for (const path of [at, folder]) await Deno.mkdir(path);
      await Deno.writeTextFile(`${folder}/file`, "text");
      const exported = hostFolder(folder, { writable: true });
      const [near, far] = duplexPair();
      let going = false;
      const caller: Duplex = {
        read: () => far.read(),
        write: (bytes) => going ? wrong(far, bytes) : far.write(bytes),
        closeWrite: () => far.closeWrite(),
        reset: (why) => far.reset(why),
      };
      const serving = serveNinep(caller, new Map([["", exported]])).catch(() => {/* it was cut */});
      try {
        const client = await NinepClient.connect(near, { own: true });
        const { root } = await new KnownExports(client).root("", { writable: true });
        await using _mounted = mountFuse(at, root, { writable: true, keepMs: 20 });
        const script = `cat ${at}/file; dd if=/dev/zero of=${at}/new bs=64k count=8 2>/dev/null; ` +
          `echo ready; read line; cat ${at}/file; echo x > ${at}/other; ls ${at}/none; echo done`;
        const child = new Deno.Command("sh", {
          args: ["-c", script],
          env: { LC_ALL: "C" },
          stdin: "piped",
          stdout: "piped",
          stderr: "piped",
        }).spawn();
        const reader = child.stdout.getReader();
        let said = "";
        const decoder = new TextDecoder();
        while (!said.includes("ready")) said += decoder.decode((await reader.read()).value);
        assert.ok(said.startsWith("text"));
        going = true;
        const writer = child.stdin.getWriter();
        await writer.write(new TextEncoder().encode("go\n"));
        await writer.close();
        for (let part = await reader.read(); !part.done; part = await reader.read()) {
          said += decoder.decode(part.value);
        }
        const errors = await new Response(child.stderr).text();
        await child.status;
        assert.match(said, /done/);
        assert.match(errors, /Input\/output error/);
        await client.closed;
      } finally {
        near.reset();
        await serving;
        exported.close();
        await Deno.remove(base, { recursive: true });
      }
    },
  });
}
