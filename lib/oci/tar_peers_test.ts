/** Against the system's own tar, both ways. */
import assert from "node:assert/strict";
import { decompress } from "./compression.ts";
import { readTar } from "./tar_read.ts";
import { TarWriter, writeTar } from "./tar_write.ts";

const run = async (cwd: string, command: string) => {
  const { success, stdout, stderr } = await new Deno.Command("sh", {
    args: ["-c", command],
    cwd,
    env: { LC_ALL: "C.UTF-8", TZ: "UTC" },
  }).output();
  assert.ok(success, new TextDecoder().decode(stderr));
  return new TextDecoder().decode(stdout);
};

let gnu = false;
try {
  const { stdout } = await new Deno.Command("tar", { args: ["--version"] }).output();
  gnu = new TextDecoder().decode(stdout).includes("GNU tar");
} catch (error) {
  if (!(error instanceof Deno.errors.NotFound)) throw error;
}
if (!gnu && Deno.env.get("CI") === "true") throw new Error("these tests need GNU tar");
if (!gnu) console.warn("tar is not compared with GNU tar: it is not installed");

async function inFolder(work: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-tar-" });
  try {
    await work(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const LONG = "l".repeat(120);

Deno.test(
  { name: "tar: reads what GNU tar writes, in each of its formats", ignore: !gnu },
  async () => {
    await inFolder(async (folder) => {
      await run(
        folder,
        `mkdir -p in/${LONG}/${LONG} && cd in && echo hello > a && ln a b && ln -s ${LONG}/${LONG}/deep s
       head -c 100000 /dev/urandom > ${LONG}/${LONG}/deep && echo x > 'ünï 文件' && mkfifo p
       ln -s ${LONG}${LONG} long-link && chmod 4751 a && truncate -s 3M sparse
       printf data | dd of=sparse bs=1 seek=1000000 conv=notrunc status=none
       printf tail | dd of=sparse bs=1 seek=2500000 conv=notrunc status=none
       for i in $(seq 40); do printf x | dd of=holes bs=1 seek=$((i*20000)) conv=notrunc status=none; done
       truncate -s 1M holes && touch -d '2001-02-03 04:05:06.789' a`,
      );
      const want = (await run(`${folder}/in`, "find . -type f -exec sha256sum {} + | sort -k2"))
        .trim();
      for (
        const options of [
          "--format=gnu",
          "--format=pax",
          "--format=gnu --sparse",
          "--format=pax --sparse --sparse-version=0.0",
          "--format=pax --sparse --sparse-version=0.1",
          "--format=pax --sparse --sparse-version=1.0",
          "--format=oldgnu --sparse",
          "--format=pax --zstd",
          "--format=gnu --gzip",
        ]
      ) {
        if (options.includes("zstd") && !await has("zstd")) continue;
        await run(
          folder,
          `tar ${options} --numeric-owner --owner=3000000 --group=77 -cf t.tar -C in .`,
        );
        const lines: string[] = [];
        const hashes = new Map<string, string>();
        const file = await Deno.open(`${folder}/t.tar`);
        for await (const { header, body } of readTar(decompress(file.readable))) {
          assert.equal(header.uid, 3_000_000, options);
          assert.equal(header.gid, 77, options);
          if (header.type === "hardlink") {
            hashes.set(header.path, hashes.get(header.linkpath)!);
          }
          if (header.type === "file") {
            const data = await new Response(body as BodyInit).arrayBuffer();
            assert.equal(data.byteLength, header.size, `${options} ${header.path}`);
            const sum = await crypto.subtle.digest("SHA-256", data);
            hashes.set(header.path, new Uint8Array(sum).toHex());
          }
          if (header.path === "./a" && header.type === "file") {
            assert.equal(header.mode, 0o4751);
            assert.equal(header.mtime, Date.UTC(2001, 1, 3, 4, 5, 6) / 1000);
            if (options.includes("pax")) assert.equal(header.mtimeNs, 789_000_000);
          }
          if (header.path === "./long-link") assert.equal(header.linkpath, LONG + LONG);
          lines.push(`${header.type} ${header.path}`);
        }
        for (const [path, sum] of hashes) lines.push(`${sum}  ${path}`);
        assert.ok(lines.includes("fifo ./p"), options);
        assert.ok(lines.includes("symlink ./s"), options);
        const got = lines.filter((line) => /^[0-9a-f]{64} /.test(line));
        const byName = (a: string, b: string) => a.slice(66) < b.slice(66) ? -1 : 1;
        assert.deepEqual(got.sort(byName), want.split("\n").sort(byName), options);
      }
    });
  },
);

async function has(program: string): Promise<boolean> {
  return (await new Deno.Command("sh", { args: ["-c", `command -v ${program}`] }).output()).success;
}

Deno.test({ name: "tar: GNU tar reads what is written", ignore: !gnu }, async () => {
  await inFolder(async (folder) => {
    const body = new TextEncoder().encode("content");
    const stream = writeTar([
      { path: "d", type: "directory", mode: 0o1777, mtime: 1_000_000_000 },
      { path: `d/${LONG}/${LONG}/file`, type: "file", body, uid: 3_000_000, mode: 0o4755 },
      { path: "d/ünï 文件", type: "file", body, mtime: 1_000_000_000, mtimeNs: 5_000_000 },
      { path: "d/old", type: "file", body, mtime: -5 },
      { path: "d/link", type: "symlink", linkpath: "../".repeat(60) + "x" },
      { path: "d/hard", type: "hardlink", linkpath: "d/old" },
      { path: "d/null", type: "char", mode: 0o666, devMajor: 1, devMinor: 3 },
      { path: "d/p", type: "fifo" },
    ]);
    await Deno.writeFile(`${folder}/t.tar`, stream);
    const listed = await run(folder, "tar --numeric-owner --full-time -tvf t.tar");
    const lines = listed.trim().split("\n").map((line) => line.replace(/ +/g, " "));
    assert.deepEqual(lines, [
      "drwxrwxrwt 0/0 0 2001-09-09 01:46:40 d/",
      `-rwsr-xr-x 3000000/0 7 1970-01-01 00:00:00 d/${LONG}/${LONG}/file`,
      "-rw-r--r-- 0/0 7 2001-09-09 01:46:40.005 d/ünï 文件",
      "-rw-r--r-- 0/0 7 1969-12-31 23:59:55 d/old",
      `lrw-r--r-- 0/0 0 1970-01-01 00:00:00 d/link -> ${"../".repeat(60)}x`,
      "hrw-r--r-- 0/0 0 1970-01-01 00:00:00 d/hard link to d/old",
      "crw-rw-rw- 0/0 1,3 1970-01-01 00:00:00 d/null",
      "prw-r--r-- 0/0 0 1970-01-01 00:00:00 d/p",
    ]);
  });
});

Deno.test({ name: "tar: GNU tar unpacks a sparse file that we wrote", ignore: !gnu }, async () => {
  await inFolder(async (folder) => {
    const size = 5_000_000;
    const segments = [{ offset: 4096, length: 512 }, { offset: size - 4, length: 4 }];
    const writer = new TarWriter();
    const data = new TextEncoder().encode("one".padEnd(512) + "four");
    const entry = { path: "in/file", type: "file", mode: 0o640, size } as const;
    const parts = [
      writer.header({ path: "in", type: "directory" }),
      writer.header(entry, segments),
      data,
      writer.data(data),
      writer.header({ ...entry, path: "in/empty" }, []),
      writer.end(),
    ];
    await Deno.writeFile(`${folder}/a.tar`, ReadableStream.from(parts));
    const out = await run(
      folder,
      "tar -xf a.tar && stat -c '%n %s %a' in/* && test $(stat -c %b in/file) -lt 100 && " +
        "printf one > 1 && printf four > 4 && " +
        "cmp -n 3 -i 4096:0 in/file 1 && cmp -n 4 -i 4999996:0 in/file 4",
    );
    assert.match(out, /in\/empty 5000000 640/);
    assert.match(out, /in\/file 5000000 640/);
  });
});
