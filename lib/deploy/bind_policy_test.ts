import assert from "node:assert/strict";
import { join } from "node:path";
import { openSource } from "./bind_policy.ts";

/** Where the source that is opened is. */
async function opened(source: string, prefixes: string[]): Promise<string> {
  using open = await openSource(source, prefixes, "mounts[0]");
  return Deno.readLinkSync(`/proc/self/fd/${open.fd}`);
}

async function folder(use: (root: string) => Promise<void>): Promise<void> {
  const root = await Deno.realPath(await Deno.makeTempDir({ prefix: "svc-binds-" }));
  try {
    await use(root);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

const denied = { code: "denied" };

Deno.test("sources: denied by default, allowed below a prefix, links cannot lead out", () =>
  folder(async (root) => {
    const inside = join(root, "ok");
    await Deno.mkdir(inside);
    await Deno.mkdir(join(inside, "deep"));
    await Deno.mkdir(join(root, "okay"));
    await Deno.symlink("/etc", join(inside, "out"));
    await Deno.symlink(join(inside, "deep"), join(inside, "in"));
    await assert.rejects(opened(inside, []), { ...denied, help: /SVC_ALLOW_BIND_SOURCES/ });
    assert.equal(await opened(inside, [inside]), inside);
    assert.equal(await opened(join(inside, "in"), [inside]), join(inside, "deep"));
    await assert.rejects(opened(join(root, "okay"), [inside]), denied);
    await assert.rejects(opened(`${inside}/../okay`, [inside]), denied);
    await assert.rejects(opened(join(inside, "out"), [inside]), denied);
    await assert.rejects(opened(join(inside, "none"), [inside]), { code: "not_found" });
    assert.equal(await opened("/etc", ["/"]), "/etc");
  }));

Deno.test("sources: outside of the prefixes, nobody learns what is there", () =>
  folder(async (root) => {
    const inside = join(root, "ok");
    await Deno.mkdir(inside);
    await Deno.writeTextFile(join(inside, "file"), "");
    await Deno.symlink("loop", join(inside, "loop"));
    const named = { code: "denied", help: `SVC_ALLOW_BIND_SOURCES allows ${inside}` };
    await assert.rejects(opened(join(root, "none"), [inside]), named);
    await assert.rejects(opened(join(root, "none"), []), { ...denied, help: /^set SVC_ALLOW/ });
    for (const path of ["file/below", "loop", "loop/below"]) {
      await assert.rejects(opened(join(inside, path), [inside]), { code: "not_found" }, path);
    }
  }));

Deno.test("sources: an opened source leaves no descriptor behind", () =>
  folder(async (root) => {
    const descriptors = () => [...Deno.readDirSync("/proc/self/fd")].length;
    await Deno.mkdir(join(root, "in"));
    await opened(join(root, "in"), [root]);
    const before = descriptors();
    for (let i = 0; i < 20; i++) await opened(join(root, "in"), [root]);
    assert(descriptors() < before + 10, `${before} descriptors became ${descriptors()}`);
  }));

Deno.test("a prefix below another one permits nothing that the other does not", () =>
  folder(async (root) => {
    await Deno.symlink("/etc", join(root, "data"));
    const prefixes = [root, join(root, "data")];
    await assert.rejects(opened(join(root, "data", "hostname"), prefixes), denied);
    await assert.rejects(opened(join(root, "data"), prefixes), denied);
  }));

/** Runs `use` where following a path's links does `then` with what was found. */
async function whereLinksAreFollowed(
  then: (real: string) => Promise<void>,
  use: () => Promise<void>,
): Promise<void> {
  const { realPath } = Deno;
  Deno.realPath = async (path) => {
    const real = await realPath(path);
    await then(real);
    return real;
  };
  try {
    await use();
  } finally {
    Deno.realPath = realPath;
  }
}

Deno.test("sources: what becomes a link after its path was followed is refused", () =>
  folder(async (root) => {
    for (const [name, source] of [["a", "a/data"], ["b", "b"]]) {
      await Deno.mkdir(join(root, source), { recursive: true });
      const swap = async (real: string) => {
        if (!real.endsWith(source)) return;
        await Deno.remove(join(root, name), { recursive: true });
        await Deno.symlink("/etc", join(root, name));
      };
      await whereLinksAreFollowed(swap, () =>
        assert.rejects(opened(join(root, source), [root]), {
          ...denied,
          message: /changed meanwhile \(.*(ELOOP|EXDEV)/,
        }));
    }
  }));

Deno.test("sources: one that the server may not look at is not told as missing", () =>
  folder(async (root) => {
    const closed = new Deno.errors.PermissionDenied("closed");
    await whereLinksAreFollowed(
      () => Promise.reject(closed),
      () => assert.rejects(opened(root, [root]), closed),
    );
  }));

Deno.test("a folder that is swapped for a link all the time never leads out", () =>
  folder(async (root) => {
    await Deno.mkdir(join(root, "ok/a/data"), { recursive: true });
    await Deno.mkdir(join(root, "secret/data"), { recursive: true });
    await Deno.symlink("../../secret", join(root, "ok/link"));
    // The folder above the source and a link that leads out change places.
    const script = 'cd "$1/ok"; while test -e ../go; do ' +
      "mv -T a was; mv -T link a; mv -T a link; mv -T was a; done";
    await Deno.writeTextFile(join(root, "go"), "");
    const swapper = new Deno.Command("sh", {
      args: ["-c", script, "sh", root],
      stdout: "null",
      stderr: "null",
    }).spawn();
    const found = new Map<string, number>();
    try {
      for (let i = 0; i < 1500; i++) {
        const where = await opened(join(root, "ok/a/data"), [join(root, "ok")])
          .catch((error) => error.code as string);
        found.set(where, (found.get(where) ?? 0) + 1);
        if (where.includes("/secret/")) break;
      }
    } finally {
      // Killed, it would leave a command of its own at work in what is removed next.
      await Deno.remove(join(root, "go"));
      await swapper.status;
    }
    assert.ok(![...found.keys()].some((where) => where.includes("/secret/")), `${[...found]}`);
  }));
