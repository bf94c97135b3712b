import assert from "node:assert/strict";
import net from "node:net";
import { SvcError } from "../../base/errors.ts";
import { openPeer } from "../../wire/grpc/peer.ts";
import { serveGrpc, serveStream } from "../../wire/grpc/server.ts";
import { readFolder } from "./folder.ts";
import { textIn } from "./lent.ts";
import { PACKET, type Packet, ReadFolder } from "./session_api.ts";

const FOLDER = 0x80000000, LINK = 0x08000000, PIPE = 0x02000000, SETUID = 0x800000;

interface Entry {
  path: string;
  mode: number;
  content?: string;
  linkname?: string;
  /** Sent instead of the content. */
  lie?: string;
}

const NOW = 1_700_000_000;

const encoder = new TextEncoder();

/** Answers as docker's client does: entries first, then the files that are asked for, in any order. */
function client(entries: readonly Entry[], seen: Record<string, unknown>) {
  return serveStream(ReadFolder, async ({ messages, send, metadata }) => {
    Object.assign(seen, metadata);
    for (const { path, mode, content = "", linkname = "" } of entries) {
      const size = encoder.encode(content).length;
      const stat = { path, mode, size, modTime: NOW * 1e9, linkname };
      await send({ type: PACKET.stat, stat } as unknown as Packet);
    }
    await send({ type: PACKET.stat } as unknown as Packet);
    for await (const { type = 0, id = 0 } of messages) {
      if (type === PACKET.end) return await send({ type: PACKET.end } as unknown as Packet);
      const { lie, content = "" } = entries[id];
      const bytes = encoder.encode(lie ?? content);
      for (let at = 0; at < bytes.length; at += 30_000) {
        const data = bytes.slice(at, at + 30_000);
        await send({ type: PACKET.data, id, data } as unknown as Packet);
      }
      await send({ type: PACKET.data, id } as unknown as Packet);
    }
  });
}

async function read(
  entries: readonly Entry[],
  work: (root: string, bytes: number, seen: Record<string, unknown>) => void | Promise<void>,
  excludes?: string[],
): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-folder-" });
  const root = `${folder}/root`;
  await Deno.mkdir(root);
  const end = new AbortController();
  const seen: Record<string, unknown> = {};
  const serving: Promise<void>[] = [];
  const listener = net.createServer((socket) => {
    serving.push(serveGrpc(socket, [client(entries, seen)], end.signal));
  });
  await new Promise<void>((resolve) => listener.listen(`${folder}/s`, resolve));
  try {
    const socket = net.connect(`${folder}/s`);
    await new Promise<void>((resolve) => socket.once("connect", () => resolve()));
    using peer = openPeer(socket);
    const builder = { peer, methods: new Set<string>(), gone: end.signal };
    const query = { name: "context", ...(excludes && { excludes }) };
    await work(root, await readFolder(builder, query, root, end.signal), seen);
    assert.deepEqual([...Deno.readDirSync(folder)].map(({ name }) => name).sort(), ["root", "s"]);
  } finally {
    end.abort();
    await Promise.all(serving);
    listener.close();
    await Deno.remove(folder, { recursive: true });
  }
}

function folderTest(name: string, fn: () => Promise<void>) {
  // Sockets of node close in a later turn of the event loop.
  const more = { sanitizeOps: false, sanitizeResources: false };
  Deno.test({
    name: `a client's folder: ${name}`,
    ignore: Deno.build.os === "windows",
    ...more,
    fn,
  });
}

folderTest("files, folders, links, modes, times; what is asked for", async () => {
  const large = "x".repeat(5 << 20);
  const many = Array.from({ length: 200 }, (_, at): Entry => ({
    ...{ path: `sub/${String(at).padStart(3, "0")}`, mode: 0o644, content: String(at) },
  }));
  await read([
    { path: "a", mode: 0o640, content: "A" },
    { path: "b", mode: 0o755 | SETUID, content: large },
    { path: "empty", mode: 0o600 },
    { path: "hard", mode: 0o640, content: "A", linkname: "a" },
    { path: "l", mode: LINK | 0o777, linkname: "../../etc/passwd" },
    { path: "pipe", mode: PIPE | 0o600 },
    { path: "sub", mode: FOLDER + 0o555 },
    ...many,
  ], (root, bytes, seen) => {
    assert.equal(Deno.readTextFileSync(`${root}/a`), "A");
    assert.equal(Deno.statSync(`${root}/a`).mode! & 0o7777, 0o640);
    assert.equal(Deno.statSync(`${root}/a`).mtime!.getTime(), NOW * 1000);
    assert.equal(Deno.statSync(`${root}/b`).mode! & 0o7777, 0o4755);
    assert.equal(Deno.readTextFileSync(`${root}/b`), large);
    assert.equal(Deno.statSync(`${root}/hard`).ino, Deno.statSync(`${root}/a`).ino);
    assert.equal(Deno.readLinkSync(`${root}/l`), "../../etc/passwd");
    assert.equal(Deno.statSync(`${root}/sub`).mode! & 0o777, 0o555);
    assert.equal([...Deno.readDirSync(`${root}/sub`)].length, 200);
    assert.equal(Deno.readTextFileSync(`${root}/sub/199`), "199");
    assert.throws(() => Deno.lstatSync(`${root}/pipe`), Deno.errors.NotFound);
    assert.ok(bytes > large.length);
    assert.equal(seen["dir-name"], "context");
    assert.equal(seen["exclude-patterns"], "caf%C3%A9+x, b");
    assert.equal(seen["exclude-patterns-encoded"], "1");
    // What follows removes the folder as anyone.
    Deno.chmodSync(`${root}/sub`, 0o755);
  }, ["café x", "b"]);
});

folderTest("its Dockerfile is text of that folder, wherever links of the client lead", async () => {
  await read([
    { path: "Dockerfile", mode: 0o644, content: "FROM a" },
    { path: "inside", mode: LINK, linkname: "Dockerfile" },
    { path: "outside", mode: LINK, linkname: "../s" },
    { path: "endless", mode: LINK, linkname: "/dev/zero" },
  ], async (root) => {
    assert.equal(await textIn(root, "inside"), "FROM a");
    assert.equal(await textIn(root, "missing"), undefined);
    for (const name of ["outside", "endless", "../../../../../dev/zero", "."]) {
      await assert.rejects(textIn(root, name), { message: /it leads out of its folder/ });
    }
  });
});

folderTest(
  "what would be written elsewhere, or is not what was announced, is refused",
  async () => {
    const cases: [Entry[], RegExp][] = [
      [[{ path: "../x", mode: 0o644 }], /no path in it/],
      [[{ path: "/x", mode: 0o644 }], /no path in it/],
      [[{ path: "a//b", mode: 0o644 }], /no path in it/],
      [[{ path: "no/x", mode: 0o644 }], /before its folder/],
      [
        [{ path: "l", mode: LINK, linkname: ".." }, { path: "l/x", mode: 0o644 }],
        /before its folder/,
      ],
      [[{ path: "h", mode: 0o644, linkname: "../s" }], /no path in it/],
      [[{ path: "a", mode: 0o644, content: "1", lie: "22" }], /changed while it was read/],
      [[{ path: "a", mode: 0o644, content: "22", lie: "1" }], /changed while it was read/],
    ];
    for (const [entries, expected] of cases) {
      await assert.rejects(read(entries, () => {}), (error) => {
        return error instanceof SvcError && error.code === "context_invalid" &&
          expected.test(error.message);
      });
    }
  },
);
