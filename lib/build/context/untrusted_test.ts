import assert from "node:assert/strict";
import { mknod, S_IFIFO } from "../../sys/files.ts";
import { isArchive } from "./archive_kind.ts";
import { fetchedContext } from "./fetched.ts";
import { type Tree } from "./tree.ts";
import { fileDigest } from "./tree_keys.ts";

async function tree(fill: (root: string) => void, use: (tree: Tree) => unknown): Promise<void> {
  const root = await Deno.makeTempDir({ prefix: "svc-untrusted-" });
  try {
    fill(root);
    await use({ root, ownersKept: false });
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

const GIT = "https://example.com/a.git";

Deno.test("a fetched context whose Dockerfile or ignore file is a FIFO is refused at once", async () => {
  for (const name of ["Dockerfile", "Dockerfile.dockerignore", ".dockerignore"]) {
    await tree((root) => {
      if (name !== "Dockerfile") Deno.writeTextFileSync(`${root}/Dockerfile`, "FROM scratch");
      mknod(`${root}/${name}`, S_IFIFO | 0o644);
    }, (found) =>
      assert.rejects(() => fetchedContext(GIT, found, "Dockerfile"), {
        code: "argument_invalid",
        message: `Cannot read ${name}: it is a FIFO, not a regular file`,
      }));
  }
});

Deno.test("a fetched context's Dockerfile is not read without end, nor outside of it", async () => {
  await tree(
    (root) => {
      Deno.writeTextFileSync(`${root}/Dockerfile`, "");
      Deno.truncateSync(`${root}/Dockerfile`, 20e9);
    },
    (found) =>
      assert.rejects(() => fetchedContext(GIT, found, "Dockerfile"), { code: "too_large" }),
  );
  await tree(
    (root) => Deno.symlinkSync("/etc/hostname", `${root}/Dockerfile`),
    async (found) =>
      assert.equal((await fetchedContext(GIT, found, "Dockerfile")).dockerfile, undefined),
  );
});

Deno.test("what was a file when it was listed, and is a FIFO now, is not waited for", async () => {
  await tree((root) => mknod(`${root}/a.tar`, S_IFIFO | 0o644), async ({ root }) => {
    const refused = { code: "argument_invalid", message: /a\.tar: it is a FIFO/ };
    await assert.rejects(fileDigest(`${root}/a.tar`, 10), refused);
    await assert.rejects(fileDigest(`${root}/a.tar`, 1 << 20), refused);
    await assert.rejects(isArchive(root, "a.tar"), refused);
  });
});
