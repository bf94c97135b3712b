/** What a 9P client does with answers that cannot be. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { SvcError } from "../../base/errors.ts";
import { FileError } from "../files/stat.ts";
import { duplexPair, RUNS, SEED } from "../testing.ts";
import { NinepClient } from "./client.ts";
import { MessageReader, QID, RLERROR, T, VERSION, Writer } from "./messages.ts";
import { Ahead, AheadFile, RemoteFile } from "./remote_file.ts";
import { RemoteNode } from "./remote_node.ts";

const refused = (error: unknown) => error instanceof SvcError && error.code === "upstream_failed";

/** A client whose server answers each request as `answer` says. */
async function against(
  answer: (type: number, tag: number) => Uint8Array | undefined,
): Promise<{ client: NinepClient; done: () => void }> {
  const [here, there] = duplexPair();
  const requests = new MessageReader(there, 1 << 20);
  void (async () => {
    for (let request = await requests.next(); request; request = await requests.next()) {
      const reply = request.type === T.VERSION
        ? new Writer(T.VERSION + 1, request.tag).u32(8192).text(VERSION).finish()
        : answer(request.type, request.tag);
      if (reply) await there.write(reply);
    }
  })().catch(() => {/* the client has hung up */});
  return { client: await NinepClient.connect(here), done: () => here.reset() };
}

Deno.test("9p: a client refuses answers that cannot be", async () => {
  const walk = (tag: number) => new Writer(T.WALK + 1, tag).u16(1).raw(new Uint8Array(13)).finish();
  const open = (tag: number) => new Writer(T.LOPEN + 1, tag).raw(new Uint8Array(17)).finish();
  const others: Record<string, (tag: number) => Uint8Array> = {
    "more than asked for": (tag) =>
      new Writer(T.READ + 1, tag).u32(9).raw(new Uint8Array(9)).finish(),
    "a count that is not there": (tag) => new Writer(T.READ + 1, tag).u32(4).finish(),
    "another type": (tag) => new Writer(T.GETATTR + 1, tag).finish(),
    "another tag": (tag) => new Writer(T.READ + 1, tag + 100).u32(0).finish(),
    "a size that cannot be": () => new Uint8Array(64).fill(255),
    "a size too small": () => new Uint8Array(64),
  };
  for (const [what, reply] of Object.entries(others)) {
    const { client, done } = await against((type, tag) =>
      type === T.WALK
        ? walk(tag)
        : type === T.LOPEN
        ? open(tag)
        : type === T.READ
        ? reply(tag)
        : undefined
    );
    await assert.rejects(Array.fromAsync(client.readFile(0, ["x"], 4)), refused, what);
    await assert.rejects(client.getattr(0), refused, what);
    done();
  }
});

Deno.test("9p: a client ends a listing that goes in circles", async () => {
  const entry = (reply: Writer) => reply.raw(new Uint8Array(13)).u64(1).u8(8).text(".");
  const size = 13 + 8 + 1 + 2 + 1;
  const { client, done } = await against((type, tag) =>
    type === T.READDIR ? entry(new Writer(T.READDIR + 1, tag).u32(size)).finish() : undefined
  );
  await assert.rejects(client.readdir(1, 0n), refused);
  done();
});

Deno.test("9p: a client survives any answer", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.uint8Array({ maxLength: 60 }), { maxLength: 60 }),
      async (answers) => {
        const list = [...answers];
        const { client, done } = await against((type, tag) => {
          const body = list.shift();
          return body && new Writer(body[0] % 3 === 0 ? RLERROR : type + 1, tag).raw(body).finish();
        });
        const known = (error: unknown) => {
          assert.ok(refused(error) || error instanceof FileError, String(error));
        };
        const work = Promise.all([
          Array.fromAsync(client.readFile(0, ["a", "b"], 100)).catch(known),
          client.readdir(0, 0n).catch(known),
          client.getattr(0).catch(known),
          client.readlink(0).catch(known),
          ...remoteWork(client).map((work) => work().catch(known)),
        ]);
        for (let turn = 0; turn < 100 && list.length > 0; turn++) await tick();
        done();
        await work;
      },
    ),
    { numRuns: RUNS, seed: SEED },
  );
});

/** Each thing that a mount asks for, of a folder that fid 0 stands for. */
function remoteWork(client: NinepClient): (() => Promise<unknown>)[] {
  const folder = new RemoteNode(client, 0, { type: QID.DIR, version: 0, path: 1n }, true);
  const file = new RemoteFile(client, 0);
  const ahead = new AheadFile(client, 0, 2n, new Ahead());
  const lock = { type: "write", start: 0n, length: 0n, owner: "me" } as const;
  return [
    () => folder.walk("a"),
    () => folder.list(),
    () => folder.create("a", 2, 0o644),
    () => folder.mkdir("a", 0o755),
    () => folder.symlink("a", "b"),
    () => folder.rename("a", folder, "b"),
    () => folder.remove("a", "other"),
    () => folder.change({ mode: 0o600, size: 1, atime: "now" }),
    () => folder.space(),
    () => folder.listXattrs(),
    () => folder.getXattr("user.a"),
    () => folder.setXattr("user.a", new Uint8Array(9), 0),
    () => file.read(0, new Uint8Array(100)),
    () => file.write(0, new Uint8Array(100)),
    () => file.lock(lock),
    () => file.lockInTheWay(lock),
    () => file.close(),
    () => ahead.write(0, new Uint8Array(100)),
    () => ahead.read(0, new Uint8Array(100)),
    () => ahead.flush(),
    () => ahead.close(),
  ];
}

const tick = () => new Promise((resolve) => setImmediate(resolve));
