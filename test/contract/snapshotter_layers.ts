/** Layers out of and into every Snapshotter: round trips, determinism, hostile archives. */
import assert from "node:assert/strict";
import * as zlib from "node:zlib";
import { digestOf } from "../../lib/oci/digest.ts";
import { writeTar } from "../../lib/oci/tar_write.ts";
import { readTar } from "../../lib/oci/tar_read.ts";
import type { Snapshotter } from "../../lib/snapshot/snapshotter.ts";
import { inUserNamespace } from "../../lib/sys/userns.ts";
import { getXattr } from "../../lib/sys/xattr.ts";
import { change, describe, populate, write } from "./snapshot_trees.ts";
import {
  archiveOf,
  look,
  make,
  type SnapshotterTest,
  type SnapshotterUnderTest,
  throwsCode,
} from "./snapshotter.ts";

type Entries = Parameters<typeof writeTar>[0];
const bytes = (text: string) => new TextEncoder().encode(text);

async function collect(stream: ReadableStream<Uint8Array>): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await new Response(stream as BodyInit).arrayBuffer());
}

const streamOf = (data: Uint8Array) => ReadableStream.from([data]);

async function applied(
  snapshotter: Snapshotter,
  name: string,
  parent: string | undefined,
  layer: ReadableStream<Uint8Array>,
): Promise<string> {
  const active = await snapshotter.prepare(`apply-${name}`, parent);
  try {
    const { diffID } = await snapshotter.apply(active, layer);
    await snapshotter.commit(active, name, { lazy: true });
    return diffID;
  } catch (error) {
    await snapshotter.remove(active.id);
    throw error;
  }
}

const paths = async (layer: Uint8Array) => {
  const found: string[] = [];
  for await (const { header } of readTar(streamOf(layer))) found.push(header.path);
  return found;
};

/** All but the root folder itself, which is in a layer only when its owner or mode changed. */
const contents = (root: string) => describe(root).slice(1);

const LATEST = 1_650_000_000;

export function layersContract(test: SnapshotterTest): void {
  const base = (under: SnapshotterUnderTest) => make(under, "base", undefined, populate, LATEST);

  test("diff and apply give the same tree again: first layer", async (under) => {
    await base(under);
    const layer = await collect(archiveOf(under.snapshotter.diff("base")));
    await applied(under.snapshotter, "copy", undefined, streamOf(layer));
    const here = await look(under, "base", contents);
    assert.ok(here.length > 30);
    assert.deepEqual(await look(under, "copy", contents), here);
  });

  test("diff and apply give the same tree again: changes, white-outs, opaque", async (under) => {
    await base(under);
    await make(under, "changed", "base", change, LATEST);
    const layer = await collect(archiveOf(under.snapshotter.diff("changed")));
    const inside = await paths(layer);
    assert.ok(inside.includes(".wh.gone"), inside.join());
    assert.ok(inside.includes("bin/.wh.dangling"));
    assert.ok(!inside.includes("etc/same"), "an unchanged file is in the layer");
    assert.ok(inside.indexOf("etc") < inside.indexOf("etc/deep/added"));
    await applied(under.snapshotter, "copy", "base", streamOf(layer));
    const want = await look(under, "changed", contents);
    assert.deepEqual(await look(under, "copy", contents), want);
    assert.ok(!want.some((line) => line.startsWith("hidden/old")));
  });

  test("the same changes give the same layer, byte for byte", async (under) => {
    const layers: Uint8Array[] = [];
    for (const round of ["one", "two"]) {
      await make(under, `base-${round}`, undefined, populate, LATEST);
      await make(under, `changed-${round}`, `base-${round}`, change, LATEST);
      layers.push(
        await collect(archiveOf(under.snapshotter.diff(`base-${round}`))),
        await collect(archiveOf(under.snapshotter.diff(`changed-${round}`))),
      );
      // Another second, so that a time that leaks shows.
      if (round === "one") await new Promise((resolve) => setTimeout(resolve, 1100));
    }
    assert.ok(Buffer.from(layers[0]).equals(layers[2]), "first layers differ");
    assert.ok(Buffer.from(layers[1]).equals(layers[3]), "second layers differ");
  });

  test("GNU tar reads a layer as it is", async (under) => {
    await base(under);
    const out = `${under.folder}/tar`;
    await Deno.mkdir(out);
    await Deno.writeFile(`${under.folder}/l.tar`, archiveOf(under.snapshotter.diff("base")));
    const { success, stderr } = await new Deno.Command("tar", {
      args: [
        "-xpf",
        `${under.folder}/l.tar`,
        "-C",
        out,
        "--xattrs",
        "--xattrs-include=*",
        "--numeric-owner",
      ],
    }).output();
    assert.ok(success, new TextDecoder().decode(stderr));
    assert.deepEqual(contents(out), await look(under, "base", contents));
  });

  test("layers come as gzip, zstd or plain, and the diff id is the plain one's", async (under) => {
    const plain = await collect(writeTar([{ path: "a", type: "file", body: bytes("hello") }]));
    const ids = new Set<string>();
    const forms = {
      plain,
      gzip: zlib.gzipSync(plain),
      zstd: zlib.zstdCompressSync(plain),
      members: Buffer.concat([zlib.gzipSync(plain.slice(0, 700)), zlib.gzipSync(plain.slice(700))]),
    };
    for (const [name, data] of Object.entries(forms)) {
      ids.add(await applied(under.snapshotter, name, undefined, streamOf(data)));
      assert.equal(
        await look(under, name, (root) => Deno.readTextFileSync(`${root}/a`)),
        "hello",
      );
    }
    assert.equal(ids.size, 1);
    const path = `${under.folder}/layer`;
    await Deno.writeFile(path, Buffer.concat([bytes("12345"), forms.gzip]));
    const active = await under.snapshotter.prepare("file");
    const result = await under.snapshotter.apply(active, {
      path,
      offset: 5,
      size: forms.gzip.length,
    });
    assert.ok(ids.has(result.diffID));
    assert.equal(result.size, plain.length);
  });

  test("devices are made by the host's root, and counted where they cannot be", async (under) => {
    const layer: Entries = [
      { path: "dev", type: "directory" },
      { path: "dev/null", type: "char", mode: 0o666, devMajor: 1, devMinor: 3 },
      { path: "dev/disk", type: "block", mode: 0o660, devMajor: 7, devMinor: 1 },
      { path: "dev/pipe", type: "fifo", mode: 0o644 },
      { path: "dev/file", type: "file", body: bytes("x") },
    ];
    const active = await under.snapshotter.prepare("devices");
    const { skippedDevices } = await under.snapshotter.apply(active, writeTar(layer));
    await under.snapshotter.commit(active, "top", { lazy: true });
    await look(under, "top", (root) => {
      const names = [...Deno.readDirSync(`${root}/dev`)].map((entry) => entry.name).sort();
      const devices = inUserNamespace() ? [] : ["disk", "null"];
      assert.deepEqual(names, [...devices, "file", "pipe"].sort());
      assert.equal(skippedDevices, 2 - devices.length);
    });
  });

  test("white-outs in any order spare what the layer itself has", async (under) => {
    await make(under, "base", undefined, (root) => {
      for (const folder of ["d", "e", "f"]) {
        Deno.mkdirSync(`${root}/${folder}`);
        write(`${root}/${folder}/old`, "old");
      }
      write(`${root}/file`, "old");
    });
    const body = bytes("new");
    const layer: Entries = [
      { path: "d/new", type: "file", body },
      { path: "d/.wh..wh..opq", type: "file" },
      { path: ".wh.e", type: "file" },
      { path: "e", type: "directory" },
      { path: "e/new", type: "file", body },
      { path: "f", type: "directory" },
      { path: "f/new", type: "file", body },
      { path: ".wh.f", type: "file" },
      { path: "file", type: "file", body },
      { path: ".wh.file", type: "file" },
      { path: ".wh.never-was", type: "file" },
    ];
    await applied(under.snapshotter, "top", "base", writeTar(layer));
    await look(under, "top", (root) => {
      for (const folder of ["d", "e", "f"]) {
        const names = [...Deno.readDirSync(`${root}/${folder}`)].map((entry) => entry.name);
        assert.deepEqual(names, ["new"], folder);
      }
      assert.equal(Deno.readTextFileSync(`${root}/file`), "new");
    });
  });

  test("an opaque root hides everything below", async (under) => {
    await make(under, "base", undefined, (root) => {
      Deno.mkdirSync(`${root}/d`);
      write(`${root}/d/old`, "");
      write(`${root}/x`, "");
    });
    const layer: Entries = [
      { path: "d", type: "directory" },
      { path: "d/new", type: "file" },
      { path: ".wh..wh..opq", type: "file" },
    ];
    await applied(under.snapshotter, "top", "base", writeTar(layer));
    const lines = await look(under, "top", (root) => describe(root, { times: false }));
    assert.deepEqual(lines.map((line) => line.split(" ")[0]), [".", "d", "d/new"]);
  });

  test("folders a layer does not list are the parent's; links of the parent are followed", async (under) => {
    await make(under, "base", undefined, (root) => {
      Deno.mkdirSync(`${root}/usr/lib`, { recursive: true });
      Deno.chmodSync(`${root}/usr/lib`, 0o2750);
      Deno.chownSync(`${root}/usr/lib`, 5, 6);
      Deno.chmodSync(`${root}/usr/lib`, 0o2750);
      Deno.symlinkSync("/usr/lib", `${root}/lib`);
      write(`${root}/usr/lib/first`, "first");
    }, LATEST);
    const layer: Entries = [
      { path: "lib/second", type: "file", body: bytes("second") },
      { path: "lib/third", type: "hardlink", linkpath: "lib/first" },
    ];
    await applied(under.snapshotter, "top", "base", writeTar(layer));
    await look(under, "top", (root) => {
      assert.ok(Deno.lstatSync(`${root}/lib`).isSymlink);
      assert.equal(Deno.readTextFileSync(`${root}/usr/lib/second`), "second");
      assert.equal(Deno.readTextFileSync(`${root}/usr/lib/third`), "first");
      const { mode, uid, gid, mtime } = Deno.lstatSync(`${root}/usr/lib`);
      assert.deepEqual([mode! & 0o7777, uid, gid], [0o2750, 5, 6]);
      assert.equal(mtime!.getTime() / 1000, LATEST);
    });
  });

  test("nothing is written outside the root", async (under) => {
    const secret = `${under.folder}/secret`;
    await Deno.mkdir(secret);
    await Deno.writeTextFile(`${secret}/kept`, "kept");
    const attempts: Record<string, Entries> = {
      dots: [{ path: "../../../../../../../../tmp/svc-evil", type: "file" }],
      inner: [{ path: "a/../../x", type: "file" }],
      link: [
        { path: "esc", type: "symlink", linkpath: secret },
        { path: "esc/evil", type: "file", body: bytes("x") },
      ],
      relative: [
        { path: "esc", type: "symlink", linkpath: "../".repeat(20) + secret.slice(1) },
        { path: "esc/evil", type: "file", body: bytes("x") },
      ],
      through: [
        { path: "esc", type: "symlink", linkpath: `${secret}/kept` },
        { path: "esc", type: "file", body: bytes("x") },
      ],
      hardlink: [{ path: "h", type: "hardlink", linkpath: `../../..${secret}/kept` }],
      whiteout: [{ path: "a/.wh...", type: "file" }],
      removal: [
        { path: "esc", type: "symlink", linkpath: secret },
        { path: "esc/.wh.kept", type: "file" },
      ],
      opaque: [
        { path: "esc", type: "symlink", linkpath: secret },
        { path: "esc/.wh..wh..opq", type: "file" },
      ],
      absolute: [{ path: `${secret}/evil`, type: "file", body: bytes("x") }],
      redirect: [{
        path: "d",
        type: "directory",
        xattrs: new Map([["trusted.overlay.redirect", bytes("/")]]),
      }],
    };
    await make(under, "base", undefined, (root) => Deno.mkdirSync(`${root}/d`));
    for (const [name, entries] of Object.entries(attempts)) {
      const refused = await applied(under.snapshotter, name, "base", writeTar(entries))
        .then(() => undefined, (error) => error);
      if (["dots", "inner", "hardlink", "whiteout"].includes(name)) {
        assert.equal(refused?.code, "archive_invalid", `${name}: ${refused}`);
      } else assert.equal(refused, undefined, `${name}: ${refused}`);
      assert.deepEqual([...Deno.readDirSync(secret)].map((entry) => entry.name), ["kept"], name);
      assert.equal(Deno.readTextFileSync(`${secret}/kept`), "kept", name);
    }
    await look(under, "redirect", (root) => {
      assert.equal(getXattr(`${root}/d`, "trusted.overlay.redirect"), undefined);
    });
    const loop: Entries = [
      { path: "a", type: "symlink", linkpath: "b" },
      { path: "b", type: "symlink", linkpath: "a" },
      { path: "a/x", type: "file" },
    ];
    await throwsCode(
      applied(under.snapshotter, "loop", undefined, writeTar(loop)),
      "archive_invalid",
    );
  });

  test("a damaged or interrupted layer is an error, and removable", async (under) => {
    const plain = await collect(
      writeTar([{ path: "a", type: "file", body: new Uint8Array(100_000) }]),
    );
    const gzip = zlib.gzipSync(plain);
    const broken = Uint8Array.from(gzip);
    broken[30] ^= 0xff;
    for (
      const [name, data] of Object.entries({
        short: plain.slice(0, 50_000),
        cut: gzip.slice(0, -20),
        broken,
        text: bytes("this is not an archive".repeat(100)),
        zstd: zlib.zstdCompressSync(plain).subarray(0, -3),
      })
    ) {
      await throwsCode(
        applied(under.snapshotter, name, undefined, streamOf(data)),
        "archive_invalid",
      );
    }
    const failing = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(plain.slice(0, 2000)),
      pull: (controller) => controller.error(new Error("connection lost")),
    });
    await assert.rejects(
      applied(under.snapshotter, "lost", undefined, failing),
      /connection lost/,
    );
    const abort = new AbortController();
    const active = await under.snapshotter.prepare("aborted");
    const endless = new ReadableStream<Uint8Array>({
      start: (c) => c.enqueue(plain.slice(0, 2000)),
    });
    const work = under.snapshotter.apply(active, endless, { signal: abort.signal });
    setTimeout(() => abort.abort(), 20);
    await assert.rejects(work, { name: "AbortError" });
    await under.snapshotter.remove("aborted");
    assert.deepEqual(await Array.fromAsync(under.snapshotter.list()), []);
  });

  test("blocks of a layer are its archive, whole", async (under) => {
    await make(under, "base", undefined, (root) => {
      populate(root);
      Deno.writeFileSync(`${root}/big`, new Uint8Array(2_500_000).fill(7));
    }, LATEST);
    const layer = await collect(archiveOf(under.snapshotter.diff("base")));
    const parts = await Array.fromAsync(under.snapshotter.diff("base"));
    const end = parts.pop();
    assert.deepEqual(end, { kind: "end", diffID: digestOf(layer) });
    const bytes: Uint8Array<ArrayBuffer>[] = [];
    for (const part of parts) {
      assert.ok(part.kind === "block");
      assert.equal(part.digest, digestOf(part.bytes).slice("sha256:".length));
      bytes.push(part.bytes);
    }
    assert.deepEqual(new Uint8Array(await new Blob(bytes).arrayBuffer()), new Uint8Array(layer));
    // Who leaves early ends it.
    for await (const part of under.snapshotter.diff("base")) if (part.kind === "block") break;
  });

  test("a reader that leaves ends the diff; the event loop stays free", async (under) => {
    await make(under, "base", undefined, (root) => {
      Deno.writeFileSync(`${root}/big`, new Uint8Array(64 << 20));
    });
    const reader = archiveOf(under.snapshotter.diff("base")).getReader();
    await reader.read();
    await reader.cancel();
    let ticks = 0, size = 0;
    const timer = setInterval(() => ticks++, 1);
    for await (const chunk of archiveOf(under.snapshotter.diff("base"))) size += chunk.length;
    clearInterval(timer);
    assert.ok(size > 64 << 20);
    assert.ok(ticks >= 5, `timers ran ${ticks} times while 64 MiB were packed`);
  });
}
