/** 9P2000.L against Debian's diod: its clients read from our server, our client from its server. */
import assert from "node:assert/strict";
import { connDuplex, type Duplex } from "../../lib/wire/duplex.ts";
import { OPEN } from "../../lib/wire/files/node.ts";
import { ERRNO, FileError } from "../../lib/wire/files/stat.ts";
import { mountFuse } from "../../lib/wire/fuse/mount.ts";
import { NinepClient } from "../../lib/wire/ninep/client.ts";
import { ConfinedFolder } from "../../lib/wire/files/folder.ts";
import { folderNode } from "../../lib/wire/files/folder_node.ts";
import { remoteRoot } from "../../lib/wire/ninep/remote_node.ts";
import { serveNinep } from "../../lib/wire/ninep/server.ts";
import { pattern } from "../../lib/wire/testing.ts";
import { eventually } from "../waits.ts";
import { e2eTest, freePort } from "./harness.ts";

const LARGE = pattern(1_500_000);

async function folderOfFiles(): Promise<{ path: string } & AsyncDisposable> {
  const path = await Deno.makeTempDir({ prefix: "svc-e2e-9p-" });
  await Deno.mkdir(`${path}/sub`);
  await Deno.writeTextFile(`${path}/hello`, "hello\n");
  await Deno.writeFile(`${path}/sub/large`, LARGE);
  await Deno.symlink("hello", `${path}/link`);
  return { path, [Symbol.asyncDispose]: () => Deno.remove(path, { recursive: true }) };
}

e2eTest("diodls and diodcat read what our 9P server shows", {
  commands: ["diodls", "diodcat"],
}, async () => {
  await using files = await folderOfFiles();
  await Deno.writeTextFile(`${files.path}/hidden`, "");
  using folder = new ConfinedFolder(files.path, { visible: (path) => path !== "hidden" });
  const node = folderNode(folder);
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const sessions: Promise<void>[] = [];
  const accepting = (async () => {
    for await (const conn of listener) {
      sessions.push(serveNinep(connDuplex(conn), new Map([["/tree", node]])));
    }
  })();
  const tool = async (name: string, ...args: string[]) => {
    const server = `127.0.0.1:${listener.addr.port}`;
    const { code, stdout, stderr } = await new Deno.Command(name, {
      args: ["-s", server, "-a", "/tree", ...args],
    }).output();
    assert.equal(code, 0, new TextDecoder().decode(stderr));
    return stdout;
  };
  try {
    const listed = new TextDecoder().decode(await tool("diodls")).trim().split(/\s+/).sort();
    assert.deepEqual(listed, ["hello", "link", "sub"]);
    const long = new TextDecoder().decode(await tool("diodls", "-l", "/sub"));
    assert.match(long, /^-rw-r--r--.* 1500000 .* large$/m);
    assert.equal(new TextDecoder().decode(await tool("diodcat", "hello")), "hello\n");
    assert.deepEqual(await tool("diodcat", "sub/large"), LARGE);
  } finally {
    listener.close();
    await accepting;
    await Promise.all(sessions);
    node.close();
  }
});

async function startDiod(folder: string): Promise<{ stream: Duplex } & AsyncDisposable> {
  const port = freePort();
  const diod = new Deno.Command("diod", {
    args: ["-f", "-n", "-N", "-e", folder, "-l", `127.0.0.1:${port}`, "-L", "stderr"],
    stdout: "null",
    stderr: "null",
  }).spawn();
  return {
    stream: connDuplex(
      await eventually("diod", () => Deno.connect({ hostname: "127.0.0.1", port })),
    ),
    async [Symbol.asyncDispose]() {
      diod.kill("SIGKILL");
      await diod.status;
    },
  };
}

e2eTest("our 9P client reads from diod", { commands: ["diod"], root: true }, async () => {
  await using files = await folderOfFiles();
  await using diod = await startDiod(files.path);
  const client = await NinepClient.connect(diod.stream, { inOrder: false });
  const root = await client.attach(files.path);
  const listed = await client.walk(root, []);
  await client.open(listed);
  const names = (await client.readdir(listed, 0n)).map(({ name }) => name);
  assert.deepEqual(names.sort(), ["hello", "link", "sub"]);
  const fid = await client.walk(root, ["sub", "large"]);
  assert.equal((await client.getattr(fid)).size, LARGE.length);
  await client.open(fid);
  const read: Uint8Array<ArrayBuffer>[] = [];
  for (let at = 0; at < LARGE.length; at += read.at(-1)!.length) {
    read.push((await client.read(fid, at, client.readSize)).slice());
  }
  assert.deepEqual(new Uint8Array(await new Blob(read).arrayBuffer()), LARGE);
  await client.clunk(fid);
  assert.equal(await client.readlink(await client.walk(root, ["link"])), "hello");
  await assert.rejects(
    client.walk(root, ["none"]),
    (error) => error instanceof FileError && error.errno === ERRNO.ENOENT,
  );
  client.close();
});

e2eTest("our 9P client writes to diod", { commands: ["diod"], root: true }, async () => {
  await using files = await folderOfFiles();
  await using diod = await startDiod(files.path);
  const client = await NinepClient.connect(diod.stream, { inOrder: false });
  const root = await remoteRoot(client, files.path, { writable: true });
  const { node, file } = await root.create("new", OPEN.RDWR, 0o640);
  assert.equal(await file.write(0, LARGE), LARGE.length);
  const part = new Uint8Array(1000);
  assert.equal(await file.read(700_000, part), 1000);
  assert.deepEqual(part, LARGE.slice(700_000, 701_000));
  await file.truncate(1_000_000);
  await file.sync(false);
  const lock = { type: "write", start: 0n, length: 0n, owner: "me" } as const;
  assert.equal(await file.lock(lock), true);
  assert.equal(await file.lock({ ...lock, type: "none" }), true);
  await file.close();
  assert.deepEqual(Deno.readFileSync(`${files.path}/new`), LARGE.slice(0, 1_000_000));
  await node.change({ mode: 0o600, mtime: { s: 1_600_000_000, ns: 42 } });
  assert.deepEqual((await node.stat()).mtime, { s: 1_600_000_000, ns: 42 });
  // That server has no attributes, and renames and removes by fids alone, which we do not.
  const folder = await root.mkdir("folder", 0o755);
  await folder.link("second", node);
  (await folder.symlink("link", "second")).close();
  assert.equal(Deno.readLinkSync(`${files.path}/folder/link`), "second");
  assert.equal((await node.stat()).nlink, 2);
  for (const call of [() => root.rename("new", folder, "x"), () => root.remove("new", "other")]) {
    await assert.rejects(call(), { errno: ERRNO.EOPNOTSUPP });
  }
  client.close();
});

e2eTest(
  "a mount of diod's files by our client, as programs use it",
  { commands: ["diod"], root: true },
  async () => {
    await using files = await folderOfFiles();
    await using diod = await startDiod(files.path);
    const target = await Deno.makeTempDir({ prefix: "svc-e2e-mount-" });
    const client = await NinepClient.connect(diod.stream, { inOrder: false });
    const root = await remoteRoot(client, files.path, { writable: true });
    {
      await using _mounted = mountFuse(target, root, { writable: true, keepMs: 100 });
      const script = `cd "$1"; cmp sub/large "$2/sub/large"; cp -a sub copy
        cmp copy/large "$2/copy/large"; echo more >> hello; chmod 600 hello
        dd if=sub/large of=part bs=1000 count=100 status=none; truncate -s 7 part; ln part other
        test "$(stat -c '%h %s' "$2/part")" = '2 7'; test "$(cat link)" = "$(printf 'hello\nmore')"`;
      const { code, stderr } = await new Deno.Command("sh", {
        args: ["-euc", script, "sh", target, files.path],
      }).output();
      assert.equal(code, 0, new TextDecoder().decode(stderr));
    }
    client.close();
    await Deno.remove(target);
  },
);
