/** Files of this machine, with nothing between: the contract, and what only shows here. */
import assert from "node:assert/strict";
import { filesContract } from "../../../test/contract/files.ts";
import { NinepClient } from "../ninep/client.ts";
import { remoteRoot } from "../ninep/remote_node.ts";
import { serveNinep } from "../ninep/server.ts";
import { duplexPair } from "../testing.ts";
import { hostFolder } from "./host_node.ts";
import { type FileNode, type NodeWriter, OPEN } from "./node.ts";
import { ERRNO, FileError } from "./stat.ts";

filesContract("files of this machine", {
  ignore: Deno.build.os !== "linux",
  open: (path, writable) => {
    const root = hostFolder(path, { writable });
    return Promise.resolve({
      root,
      [Symbol.asyncDispose]: () => Promise.resolve(root.close()),
    });
  },
});

Deno.test({
  name: "files of this machine: nothing leads out while folders are exchanged for links",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const base = await Deno.realPath(await Deno.makeTempDir({ prefix: "svc-swap-" }));
    const [inside, outside] = [`${base}/inside`, `${base}/outside`];
    await Deno.mkdir(`${inside}/x`, { recursive: true });
    await Deno.mkdir(outside);
    await Deno.writeTextFile(`${outside}/secret`, "secret");
    await Deno.writeTextFile(`${inside}/x/secret`, "inside");
    await Deno.writeTextFile(`${inside}/f`, "inside");
    await Deno.symlink(outside, `${inside}/x-link`);
    await Deno.symlink(`${outside}/secret`, `${inside}/f-link`);
    const before = [statDescription(outside), statDescription(`${outside}/secret`)];
    const counter = new Int32Array(new SharedArrayBuffer(8));
    const swapper = new Worker(new URL("./testing_swapper.ts", import.meta.url), {
      type: "module",
    });
    const pairs = [["x", "x-link"], ["f", "f-link"]];
    swapper.postMessage({ folder: inside, pairs, counter });
    const folder = hostFolder(inside, { writable: true });
    const [near, far] = duplexPair();
    const serving = serveNinep(far, new Map([["", folder]]));
    const client = await NinepClient.connect(near);
    const root = await remoteRoot(client, "", { writable: true });
    const done: Record<string, number> = {};
    const attempt = async (what: string, work: () => Promise<unknown>) => {
      try {
        await work();
        done[what] = (done[what] ?? 0) + 1;
      } catch (error) {
        if (!(error instanceof FileError)) throw error;
      }
    };
    /** A node of a name, for the time of a call. */
    const at = async (
      name: string,
      use: (node: FileNode & { writer?: NodeWriter }) => Promise<void>,
    ) => {
      const node = await root.walk(name);
      try {
        await use(node);
      } finally {
        node.close();
      }
    };
    const content = async (node: FileNode) => {
      const file = await node.open(0);
      const into = new Uint8Array(20);
      const text = new TextDecoder().decode(into.subarray(0, await file.read(0, into)));
      await file.close();
      return text;
    };
    try {
      for (let n = 0; n < 400 || Atomics.load(counter, 0) < 18_750; n++) {
        await Promise.all([
          attempt("read below", () =>
            at("x", async (x) => {
              const secret = await x.walk("secret");
              assert.equal(await content(secret), "inside");
              secret.close();
            })),
          attempt("read", () => at("f", async (f) => assert.ok(await content(f) !== "secret"))),
          attempt("create", () =>
            at("x", async (x) => {
              const { node, file } = await x.writer!.create(`new-${n}`, OPEN.RDWR, 0o644);
              await file.close();
              node.close();
            })),
          attempt("make", async () => {
            const { node, file } = await root.create("f", OPEN.RDWR | OPEN.TRUNC, 0o666);
            await file.write(0, new TextEncoder().encode("guest"));
            await file.close();
            node.close();
          }),
          attempt(
            "folder",
            () => at("x", async (x) => (await x.writer!.mkdir(`d-${n}`, 0o755)).close()),
          ),
          attempt(
            "mode",
            () => at("f", async (f) => await f.writer!.change({ mode: 0o777, size: 3 })),
          ),
          attempt(
            "time",
            () => at("f", async (f) => await f.writer!.change({ mtime: { s: 1, ns: 1 } })),
          ),
          attempt(
            "attribute",
            () =>
              at("f", async (f) => await f.writer!.setXattr("user.guest", new Uint8Array(3), 0)),
          ),
          attempt("link", () => at("f", async (f) => await root.link(`l-${n}`, f))),
          attempt(
            "rename",
            () => at("x", async (x) => await root.rename(`l-${n - 1}`, x, `m-${n}`)),
          ),
          attempt(
            "remove",
            () => at("x", async (x) => await x.writer!.remove(`m-${n - 2}`, "other")),
          ),
        ]);
      }
    } finally {
      const ended = new Promise((resolve) => swapper.onmessage = resolve);
      Atomics.store(counter, 1, 1);
      await ended;
      await near.closeWrite();
      await serving;
      client.close();
      folder.close();
      swapper.terminate();
    }
    for (
      const what of ["read below", "read", "create", "make", "folder", "mode", "link", "rename"]
    ) {
      assert.ok(done[what] > 0, `${what} was never done: ${JSON.stringify(done)}`);
    }
    assert.deepEqual([statDescription(outside), statDescription(`${outside}/secret`)], before);
    assert.equal(await Deno.readTextFile(`${outside}/secret`), "secret");
    assert.deepEqual(Array.from(Deno.readDirSync(outside), ({ name }) => name), ["secret"]);
    await Deno.remove(base, { recursive: true });
  },
});

/** All that a change would show in. */
function statDescription(path: string): string {
  const { mode, size, mtime, ctime, nlink } = Deno.lstatSync(path);
  return JSON.stringify([mode, size, mtime, ctime, nlink]);
}

Deno.test({
  name: "files of this machine: what is of another export is neither linked nor moved",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const base = await Deno.makeTempDir({ prefix: "svc-exports-" });
    await Deno.mkdir(`${base}/mine`);
    await Deno.mkdir(`${base}/read`);
    await Deno.writeTextFile(`${base}/read/file`, "read-only");
    const [mine, read] = [
      hostFolder(`${base}/mine`, { writable: true }),
      hostFolder(`${base}/read`),
    ];
    const [near, far] = duplexPair();
    const serving = serveNinep(far, new Map([["mine", mine], ["read", read]]));
    const client = await NinepClient.connect(near);
    const roots = {
      mine: await remoteRoot(client, "mine", { writable: true }),
      read: await remoteRoot(client, "read", { writable: true }),
    };
    const file = await roots.read.walk("file");
    const refused = (errno: number, work: Promise<unknown>) =>
      assert.rejects(work, (error) => error instanceof FileError && error.errno === errno);
    await refused(ERRNO.EXDEV, roots.mine.link("file", file));
    await refused(ERRNO.EROFS, roots.read.rename("file", roots.mine, "file"));
    await (await roots.mine.create("own", OPEN.RDWR, 0o644)).file.close();
    await refused(ERRNO.EXDEV, roots.mine.rename("own", roots.read, "own"));
    await refused(ERRNO.EROFS, roots.read.create("new", OPEN.RDWR, 0o644));
    await refused(ERRNO.EROFS, file.change({ mode: 0o777 }));
    await refused(ERRNO.EROFS, file.open(OPEN.WRONLY));
    await near.closeWrite();
    await serving;
    client.close();
    mine.close();
    read.close();
    assert.deepEqual(Array.from(Deno.readDirSync(`${base}/mine`), ({ name }) => name), ["own"]);
    await Deno.remove(base, { recursive: true });
  },
});
