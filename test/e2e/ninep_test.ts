/** 9P2000.L against Debian's diod: its clients read from our server, our client from its server. */
import assert from "node:assert/strict";
import { connDuplex } from "../../lib/wire/duplex.ts";
import { NinepClient, ServerError } from "../../lib/wire/ninep/client.ts";
import { ConfinedFolder } from "../../lib/wire/ninep/folder.ts";
import { serveNinep } from "../../lib/wire/ninep/server.ts";
import { pattern } from "../../lib/wire/testing.ts";
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
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const sessions: Promise<void>[] = [];
  const accepting = (async () => {
    for await (const conn of listener) {
      sessions.push(serveNinep(connDuplex(conn), new Map([["/tree", folder]])));
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
  }
});

async function connected(port: number): Promise<Deno.TcpConn> {
  for (const deadline = Date.now() + 30_000;;) {
    try {
      return await Deno.connect({ hostname: "127.0.0.1", port });
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

e2eTest("our 9P client reads from diod", { commands: ["diod"], root: true }, async () => {
  await using files = await folderOfFiles();
  const port = freePort();
  const diod = new Deno.Command("diod", {
    args: ["-f", "-n", "-N", "-e", files.path, "-l", `127.0.0.1:${port}`, "-L", "stderr"],
    stdout: "null",
    stderr: "null",
  }).spawn();
  try {
    const client = await NinepClient.connect(connDuplex(await connected(port)));
    const root = await client.attach(files.path);
    const listed = await client.walk(root, []);
    await client.open(listed);
    const names = (await Array.fromAsync(client.readdir(listed, 100))).map(({ name }) => name);
    assert.deepEqual(names.sort(), ["hello", "link", "sub"]);
    const fid = await client.walk(root, ["sub", "large"]);
    assert.equal(Number((await client.getattr(fid)).size), LARGE.length);
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
      (error) => error instanceof ServerError && error.errno === 2,
    );
    client.close();
  } finally {
    diod.kill("SIGKILL");
    await diod.status;
  }
});
