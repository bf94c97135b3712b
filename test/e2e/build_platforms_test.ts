/** Builds for another architecture: steps run by an emulator that the kernel starts, an index that lands. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { elfProgram } from "../../lib/build/foreign.ts";
import { withContext } from "./build_helpers.ts";
import { e2eTest, EXECUTABLE, runTool, startServer } from "./harness.ts";

const NEEDS = { root: true, commands: ["runc", "skopeo", "qemu-aarch64-static"] };

const NAME = `svc-test-${Deno.pid}`;

const HEADER =
  "\\x7fELF\\x02\\x01\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02\\x00\\xb7\\x00";
const MASK = "\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x00\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff" +
  "\\xfe\\xff\\xff\\xff";

/** In a mount namespace of its own: binfmt_misc, where nobody but this script sees it. */
const IN_BINFMT = 'mount -t binfmt_misc binfmt_misc "$1" || exit 77\n';

/** Why this machine cannot have an emulator registered; undefined where it can. */
async function obstacle(folder: string): Promise<string | undefined> {
  const { code, stderr } = await new Deno.Command("unshare", {
    args: ["--mount", "sh", "-c", `${IN_BINFMT} test -w "$1/register"`, "sh", folder],
    stdin: "null",
  }).output();
  return code === 0 ? undefined : new TextDecoder().decode(stderr).trim() || "no right to register";
}

/** Leaves what was registered before as it is, on machines where binfmt_misc is mounted for good. */
async function unregister(folder: string): Promise<void> {
  const script = `${IN_BINFMT} [ ! -e "$1/${NAME}" ] || echo -1 >"$1/${NAME}"`;
  await runTool("unshare", ["--mount", "sh", "-c", script, "sh", folder]);
}

/** For arm64: makes the folder /made, says so, and ends. */
function armProgram(): Uint8Array<ArrayBuffer> {
  const mov = (register: number, value: number) => 0xd2800000 + value * 32 + register;
  const adr = (register: number, words: number) => 0x10000000 + words * 32 + register;
  const call = 0xd4000001;
  const path = "/made\0\0\0", text = "arm64 has run\n\0\0";
  const code = [
    0x92800c60, // x0: the working directory (-100)
    adr(1, 12),
    mov(2, 0o755),
    mov(8, 34), // mkdirat
    call,
    mov(0, 1),
    adr(1, 8 + path.length / 4 - 1),
    mov(2, text.length - 2),
    mov(8, 64), // write
    call,
    mov(0, 0),
    mov(8, 93), // exit
    call,
  ];
  const bytes = new Uint8Array(code.length * 4 + path.length + text.length);
  const view = new DataView(bytes.buffer);
  code.forEach((word, index) => view.setUint32(index * 4, word, true));
  bytes.set(new TextEncoder().encode(path + text), code.length * 4);
  return elfProgram("arm64", bytes);
}

e2eTest("platforms: a step of another architecture runs, and the index lands", NEEDS, async () => {
  if (Deno.build.arch !== "x86_64") return console.error("skipped: arm64 is this machine's own");
  const folder = await Deno.makeTempDir({ prefix: "svc-e2e-platforms-" });
  try {
    const why = await obstacle(folder);
    if (why) return console.error(`skipped: binfmt_misc cannot be had: ${why}`);
    const qemu = (await runTool("sh", ["-c", "command -v qemu-aarch64-static"])).stdout.trim();
    const executable = join(folder, "svc");
    const mountPoint = join(folder, "binfmt");
    await Deno.mkdir(mountPoint);
    await Deno.writeTextFile(
      join(folder, "inside"),
      `set -- ${mountPoint} "$@"\n${IN_BINFMT}` +
        `printf '%s' ':${NAME}:M::${HEADER}:${MASK}:${qemu}:F' >"$1/register" || exit 78\n` +
        `shift\nexec ${EXECUTABLE} "$@"\n`,
    );
    await Deno.writeTextFile(
      executable,
      `#!/bin/sh\nexec unshare --mount sh ${folder}/inside "$@"\n`,
    );
    await Deno.chmod(executable, 0o755);
    await using server = await startServer({ executable });
    const files = {
      Dockerfile:
        'FROM scratch\nARG TARGETARCH\nCOPY --chmod=755 $TARGETARCH /program\nRUN ["/program"]\n',
      arm64: armProgram(),
      amd64: elfProgram("amd64"),
    };
    await withContext(files, async (directory) => {
      const platforms = ["linux/amd64", "linux/arm64"];
      const args = ["build", "--platform", platforms.join(), "-t", "multi:1", directory];
      const { code, stdout, stderr } = await server.svc(args);
      assert.equal(code, 0, stderr);
      assert.match(stdout + stderr, /arm64 has run/);
      const url = `docker://${server.host}/multi:1`;
      const raw = await runTool("skopeo", ["inspect", "--raw", "--tls-verify=false", url]);
      const { manifests } = JSON.parse(raw.stdout);
      assert.deepEqual(
        manifests.map(({ platform }: { platform: { os: string; architecture: string } }) =>
          `${platform.os}/${platform.architecture}`
        ),
        platforms,
      );
    });
    const made = join(folder, "out");
    const take = { Dockerfile: "FROM scratch\nCOPY --from=multi:1 /made /made\n" };
    await withContext(take, async (directory) => {
      const args = ["build", "--platform", "linux/arm64", "-o", made, directory];
      const { code, stderr } = await server.svc(args);
      assert.equal(code, 0, stderr);
      assert.ok((await Deno.stat(join(made, "made"))).isDirectory);
    });
  } finally {
    await unregister(folder).catch(() => {/* it could not be registered either */});
    await Deno.remove(folder, { recursive: true });
  }
});

const PLAIN = { root: true, commands: ["runc"] };

e2eTest(
  "platforms: one that nothing here runs is refused, with what to install",
  PLAIN,
  async () => {
    await using server = await startServer();
    const Dockerfile = 'FROM scratch\nCOPY Dockerfile /\nRUN ["/program"]\n';
    await withContext({ Dockerfile }, async (directory) => {
      const { code, stderr } = await server.svc(["build", "--platform", "linux/vax", directory]);
      assert.equal(code, 1);
      assert.match(stderr, /Dockerfile:3: .*programs for linux\/vax do not run on this linux\//);
      assert.match(stderr, /register an emulator for vax .*qemu-user-static/);
      const copied = { Dockerfile: "FROM scratch\nCOPY Dockerfile /\n" };
      await withContext(copied, async (other) => {
        const built = await server.svc(["build", "--platform", "linux/vax", "-t", "vax:1", other]);
        assert.equal(built.code, 0, built.stderr);
      });
    });
  },
);
