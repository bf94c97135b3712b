/** Mounts that go on in another process: here it is the same one, which takes descriptors of itself. */
import assert from "node:assert/strict";
import { join } from "node:path";
import type { OpenFile } from "../../wire/files/node.ts";
import { LastingStream } from "../../wire/lasting/stream.ts";
import { NinepClient } from "../../wire/ninep/client.ts";
import { remoteRoot } from "../../wire/ninep/remote_node.ts";
import { duplexPair } from "../../wire/testing.ts";
import type { YamuxStream } from "../../wire/yamux/stream.ts";
import { type OfferedMounts, openMounts } from "./open.ts";

/** Connects the server's stream to the caller's mounts. */
function connect(stream: LastingStream, mounts: OfferedMounts): void {
  const [near, far] = duplexPair();
  stream.carry(near).catch(() => {/* the connection is over */});
  const widened = Object.assign(far, { widen() {} }) as unknown as YamuxStream;
  void (async () => {
    await mounts.takes!.mount!(widened, { id: "m" });
  })().catch(() => {/* the connection is over */});
}

const text = async (file: OpenFile) => {
  const bytes = new Uint8Array(100);
  return new TextDecoder().decode(bytes.subarray(0, await file.read(0, bytes)));
};
const bytes = (value: string) => new TextEncoder().encode(value);

Deno.test({
  name: "mounts: another process goes on with open files, listings, locks and what is under way",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-passing-" });
    await Deno.writeTextFile(join(folder, "gone"), "still here");
    await Deno.mkdir(join(folder, "many"));
    for (let n = 0; n < 20; n++) await Deno.writeTextFile(join(folder, "many", `f${n}`), "");
    await Deno.writeTextFile(join(folder, "one"), "1");
    const sources = [
      { source: folder, target: "/a", readOnly: false },
      { source: join(folder, "one"), target: "/b", readOnly: true },
    ];
    const first = openMounts(sources);
    const stream = new LastingStream();
    connect(stream, first);
    const client = await NinepClient.connect(stream, { maxMessage: 8192 });
    const root = await remoteRoot(client, "0", { writable: true });
    const file = await (await root.walk("gone")).open(2);
    const many = await root.walk("many");
    const single = await remoteRoot(client, "1", {});
    const listing = await many.list();
    const begun = await listing.read(0n);
    const whole = { type: "write", start: 0n, length: 0n, owner: "1 x" } as const;
    assert.equal(await file.lock!(whole), true);
    await Deno.remove(join(folder, "gone"));
    assert.equal(await text(file), "still here");

    // A request is on its way while the serving ends.
    const asked = text(file);
    const passed = JSON.parse(JSON.stringify(await first.pass()));
    using second = openMounts(sources);
    second.adopt(passed);
    connect(stream, second);
    assert.equal(await asked, "still here");
    await file.write!(0, bytes("written"));
    assert.equal(await text(file), "writtenere");
    assert.equal((await file.stat!()).nlink, 0);
    const names = new Set(begun.map(({ name }) => name));
    for (let rest = await listing.read(begun.at(-1)!.next); rest.length > 0;) {
      for (const { name } of rest) names.add(name);
      rest = await listing.read(rest.at(-1)!.next);
    }
    for (let n = 0; n < 20; n++) assert.ok(names.has(`f${n}`), `f${n}`);
    assert.equal(await text(await (await single.walk("file")).open(0)), "1");
    const other = await root.walk("one");
    assert.equal(await text(await other.open(0)), "1");
    await file.close();
    first[Symbol.dispose]();
    await Deno.remove(folder, { recursive: true });
  },
});

Deno.test({
  name: "mounts: what cannot be taken from its process is not gone on with",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-passing-" });
    const sources = [{ source: folder, target: "/a", readOnly: false }];
    const first = openMounts(sources);
    const stream = new LastingStream();
    connect(stream, first);
    const client = await NinepClient.connect(stream);
    await (await remoteRoot(client, "0", { writable: true })).stat();
    const passed = (await first.pass())!;
    assert.equal(passed.places.length, 1);
    using second = openMounts(sources);
    assert.throws(() => second.adopt({ ...passed, pid: 0x7ffffff0 }));
    first[Symbol.dispose]();
    stream.reset();
    await Deno.remove(folder, { recursive: true });
  },
});
