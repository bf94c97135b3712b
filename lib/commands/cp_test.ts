/** `svc cp` against a server whose instance is a folder, read and written by GNU tar. */
import assert from "node:assert/strict";
import { svcFake } from "../../test/fixtures/cli.ts";
import { SvcError } from "../base/errors.ts";
import { type TarFields, writeTar } from "../oci/tar_write.ts";
import { requireTools } from "../../test/e2e/harness.ts";
import { parsePlace } from "./cp/place.ts";

const { ignore } = requireTools({ commands: ["tar", "sh", "stat", "truncate"] });

async function sh(cwd: string, script: string): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command("sh", {
    args: ["-euc", script],
    cwd,
    env: { LC_ALL: "C.UTF-8", TZ: "UTC" },
  }).output();
  assert(success, new TextDecoder().decode(stderr));
  return new TextDecoder().decode(stdout);
}

/** Two folders: `here` is this machine's, `there` the instance's root. */
async function sides(work: (side: Sides) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-cp-" });
  try {
    const [here, there] = [`${folder}/here`, `${folder}/there`];
    await Promise.all([here, there].map((path) => Deno.mkdir(path)));
    await work(new Sides(folder, here, there));
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

class Sides {
  /** What the server answers instead of an archive of its own. */
  archive?: () => ReadableStream<Uint8Array>;

  constructor(readonly folder: string, readonly here: string, readonly there: string) {}

  #stat(path: string): Response {
    const host = `${this.there}${path}`;
    let info: Deno.FileInfo;
    try {
      info = Deno.lstatSync(host);
    } catch {
      throw new SvcError("not_found", `Cannot read ${path}: there is no such file`);
    }
    return Response.json({
      name: path.slice(path.lastIndexOf("/") + 1),
      size: info.size,
      mode: info.mode,
      modified: info.mtime?.toISOString(),
      ...info.isSymlink && { linkTarget: Deno.readLinkSync(host) },
    });
  }

  async #write(path: string, body: Uint8Array): Promise<Response> {
    await Deno.writeFile(`${this.folder}/sent.tar`, body);
    await sh(this.folder, `tar -C '${this.there}${path}' --numeric-owner -xpSf sent.tar`);
    return new Response(null, { status: 204 });
  }

  readonly handler = async (request: Request, url: URL): Promise<Response> => {
    if (url.pathname.endsWith("/deployments/web")) {
      return Response.json({ name: "web", instances: [], warnings: [] });
    }
    const path = url.searchParams.get("path")!;
    if (request.method === "PUT") return await this.#write(path, await request.bytes());
    if (request.headers.get("accept") === "application/json") return this.#stat(path);
    if (this.archive) return new Response(this.archive() as BodyInit);
    const name = path.slice(path.lastIndexOf("/") + 1);
    const parent = path.slice(0, path.lastIndexOf("/"));
    await sh(
      `${this.there}${parent || "/"}`,
      `tar --format=pax --numeric-owner -Scf ${this.folder}/read.tar -- '${name}'`,
    );
    return new Response(await Deno.readFile(`${this.folder}/read.tar`));
  };

  /** `svc cp`; `HERE` in an argument is this machine's folder. */
  async cp(...args: string[]): Promise<{ code: number; stderr: string; requests: string[] }> {
    const real = args.map((arg) => arg.replace("HERE", this.here));
    const { code, stderr, requests } = await svcFake(["cp", ...real], { handler: this.handler });
    return { code, stderr, requests };
  }

  async good(...args: string[]): Promise<void> {
    const { code, stderr } = await this.cp(...args);
    assert.deepEqual([code, stderr], [0, ""], args.join(" "));
  }

  async bad(args: string[], code: number, why: RegExp): Promise<void> {
    const found = await this.cp(...args);
    assert.equal(found.code, code, `${args.join(" ")}: ${found.stderr}`);
    assert.match(found.stderr, why);
  }
}

/** Everything below a folder, in comparable form. */
const listing = (folder: string, owners = false) =>
  sh(
    folder,
    `find . -mindepth 1 -printf '%P %y %m ${
      owners ? "%U:%G " : ""
    }%s %l %T@\\n' | sed -E 's/^(.* d .*) [0-9]+  /\\1 /' | sort`,
  );

const TREE = `mkdir -p t/sub/empty && printf one > t/file && chmod 640 t/file
  printf run > t/sub/run && chmod 4755 t/sub/run && ln t/file t/sub/same
  ln -s ../file t/sub/link && ln -s /nowhere/at/all t/dangling && printf x > 't/ünï 文'
  truncate -s 3M t/holes && printf mid | dd of=t/holes bs=1 seek=1048576 conv=notrunc status=none
  chmod 700 t/sub && touch -d '2020-01-02 03:04:05' t/file t/sub/run t/holes 't/ünï 文' t/sub/empty
  touch -d '2020-01-02 03:04:05' t/sub && touch -h -d '2020-01-02' t/sub/link t/dangling`;

const test = (name: string, work: (side: Sides) => Promise<void>) =>
  Deno.test({ name, ignore, fn: () => sides(work) });

test("cp: a folder there and back again: modes, links, times, holes", async (side) => {
  const { here, there } = side;
  await sh(here, TREE);
  await side.good("HERE/t", "web:/copy");
  await side.good("web:/copy", "HERE/back");
  const plain = (text: string) => text.replace(/^(\S+ l \d+ \d+ \S+).*$/gm, "$1");
  const want = plain(await listing(`${here}/t`));
  assert.equal(plain(await listing(`${there}/copy`)), want);
  // Setuid is kept in the instance, and not here.
  assert.equal(plain(await listing(`${here}/back`)), want.replace("f 4755", "f 755"));
  const shape = "stat -c %i file sub/same | uniq | wc -l; test $(stat -c %b holes) -lt 1000; " +
    "head -c 1048579 holes | tail -c 3";
  for (const folder of [`${there}/copy`, `${here}/back`]) {
    assert.equal(await sh(folder, shape), "1\nmid");
  }
});

test("cp: owners are the caller's and root's, or with -a the source's", async (side) => {
  if (Deno.uid() !== 0) return;
  const { here, there } = side;
  await sh(here, "mkdir -p t/d && echo x > t/f && ln -s f t/l && chown -hR 1234:5678 t");
  await sh(here, "chmod 6755 t/f");
  const owners = (folder: string) => sh(folder, "stat -c '%n %u:%g %a' . d f l");
  await side.good("HERE/t", "web:/plain");
  assert.equal(await owners(`${there}/plain`), ". 0:0 755\nd 0:0 755\nf 0:0 6755\nl 0:0 777\n");
  await side.good("-a", "HERE/t", "web:/kept");
  const kept = ". 1234:5678 755\nd 1234:5678 755\nf 1234:5678 6755\nl 1234:5678 777\n";
  assert.equal(await owners(`${there}/kept`), kept);
  await side.good("web:/kept", "HERE/mine");
  assert.equal(await owners(`${here}/mine`), ". 0:0 755\nd 0:0 755\nf 0:0 755\nl 0:0 777\n");
  await side.good("--archive", "web:/kept", "HERE/kept");
  assert.equal(await owners(`${here}/kept`), kept);
});

test("cp: where a copy lands, both ways, is docker's", async (side) => {
  const { here, there } = side;
  const make = "mkdir -p d/in folder && echo f > f && echo i > d/in/i && echo old > old";
  const names = (folder: string) => sh(folder, "find . -type f | sort | tr '\\n' ' '");
  const fresh = async () => {
    for (const folder of [here, there]) await sh(folder, "rm -rf ./* && mkdir x");
  };
  const cases: [from: string, to: string, found: string | RegExp][] = [
    ["f", "x/new", "./x/new"],
    ["f", "x", "./x/f"],
    ["f", "x/", "./x/f"],
    ["f", "x/.", "./x/f"],
    ["f", "none/", /there is no such folder/],
    ["f", "none/new", /none/],
    ["f/", "x/new", /no folder|no such file/i],
    ["d", "x/new", "./x/new/in/i"],
    ["d", "x/new/", "./x/new/in/i"],
    ["d", "x", "./x/d/in/i"],
    ["d/", "x", "./x/d/in/i"],
    ["d/.", "x", "./x/in/i"],
    ["d/.", "x/new", "./x/new/in/i"],
    ["none", "x", /there is no such file/],
  ];
  for (const [from, to, found] of cases) {
    for (const out of [true, false]) {
      await fresh();
      await sh(out ? there : here, make);
      const args = out ? [`web:/${from}`, `HERE/${to}`] : [`HERE/${from}`, `web:/${to}`];
      const { code, stderr } = await side.cp(...args);
      if (typeof found === "string") {
        assert.deepEqual([code, stderr], [0, ""], args.join(" "));
        assert.equal((await names(out ? here : there)).trim(), found, args.join(" "));
      } else {
        assert.notEqual(code, 0, args.join(" "));
        assert.match(stderr, found, args.join(" "));
      }
    }
  }
  await fresh();
  await Promise.all([here, there].map((folder) => sh(folder, make)));
  await side.bad(["web:/d", "HERE/old"], 2, /a folder cannot replace a file/);
  await side.bad(["HERE/d", "web:/old"], 2, /a folder cannot replace a file/);
  await side.good("web:/f", "HERE/old");
  await side.good("HERE/f", "web:/old");
  assert.equal(await sh(here, "cat old"), "f\n");
  assert.equal(await sh(there, "cat old"), "f\n");
});

test("cp: links: copied as such, followed with -L and where they are the target", async (side) => {
  const { here, there } = side;
  const make = "mkdir -p d/sub out && echo f > d/f && ln -s d/f l && ln -s d ld && " +
    "ln -s out to && ln -s ld chain && ln -s ../out/fresh d/later";
  for (const folder of [here, there]) await sh(folder, make);
  const there2 = (script: string) => sh(there, script);
  await side.good("web:/l", "HERE/l1");
  assert.equal(await Deno.readLink(`${here}/l1`), "d/f");
  await side.good("-L", "web:/l", "HERE/l2");
  assert.equal(await sh(here, "cat l2; test ! -L l2"), "f\n");
  await side.good("-L", "web:/chain", "HERE/to");
  assert.equal(await sh(here, "cat out/chain/f"), "f\n");
  await side.good("HERE/l", "web:/l1");
  assert.equal(await Deno.readLink(`${there}/l1`), "d/f");
  await side.good("-L", "HERE/l", "web:/to");
  assert.equal(await there2("cat out/l; test ! -L out/l; test -L to"), "f\n");
  await side.good("HERE/ld/", "web:/copied");
  assert.equal(await there2("cat copied/f"), "f\n");
  // A link to nothing is written to where it leads.
  await side.good("HERE/d/f", "web:/d/later");
  await side.good("web:/d/f", "HERE/d/later");
  for (const folder of [here, there]) assert.equal(await sh(folder, "cat out/fresh"), "f\n");
  for (const folder of [here, there]) await sh(folder, "ln -s b a && ln -s a b");
  await side.bad(["web:/d", "HERE/a/"], 2, /symbolic links|no such|Too many|loop/i);
  await side.bad(["HERE/d", "web:/a"], 2, /too many symbolic links/);
  await side.bad(["-L", "web:/a", "HERE/out"], 2, /too many symbolic links/);
});

test("cp -: an archive on standard input and output, also a compressed one", async (side) => {
  const { here, there, handler } = side;
  await sh(there, "mkdir d out && echo f > d/f");
  const { code, requests } = await svcFake(["cp", "web/web-1:/d", "-"], { handler });
  assert.equal(code, 0);
  assert.deepEqual(requests.map((text) => text.split("?")[1]), [
    "path=%2Fd&instance=web-1",
    "path=%2Fd&instance=web-1",
  ]);
  await sh(here, "mkdir t && echo in > t/in && tar -czf in.tar.gz t");
  const packed = await Deno.readFile(`${here}/in.tar.gz`);
  const put = await svcFake(["cp", "-", "web:/out"], { handler, stdin: packed });
  assert.deepEqual([put.code, put.stderr], [0, ""]);
  assert.equal(await sh(there, "cat out/t/in"), "in\n");
  const nowhere = await svcFake(["cp", "-", "web:/none"], { handler, stdin: packed });
  assert.equal(nowhere.code, 1);
  assert.match(nowhere.stderr, /Cannot read \/none: there is no such file/);
  const file = await svcFake(["cp", "-", "web:/d/f"], { handler, stdin: packed });
  assert.equal(file.code, 2);
  assert.match(file.stderr, /Cannot unpack into web:\/d\/f: it is no folder/);
});

type Entries = (TarFields & { body?: Uint8Array })[];

test("cp: an archive of a hostile server writes nothing but what was asked for", async (side) => {
  const { here, there } = side;
  await sh(there, "mkdir d && echo f > d/f");
  const before = "mkdir out outside && echo mine > outside/mine && echo mine > .bashrc && " +
    "mkdir out/d && ln -s ../outside out/link && ln -s ../../outside out/d/link";
  const body = new TextEncoder().encode("evil");
  const file = (path: string): Entries[0] => ({ path, type: "file", body });
  const link = (path: string, linkpath: string): Entries[0] => ({
    ...{ path, type: "symlink", linkpath },
  });
  const hard = (path: string, linkpath: string): Entries[0] => ({
    ...{ path, type: "hardlink", linkpath },
  });
  const dir = (path: string): Entries[0] => ({ path, type: "directory" });
  const attacks: Record<string, Entries> = {
    "a name beside the root": [dir("d"), file("d/f"), file(".bashrc")],
    "dots": [dir("d"), file("d/../../.bashrc")],
    "dots first": [file("../.bashrc")],
    "an absolute name": [dir("d"), file("/.bashrc")],
    "through a link of its own": [dir("d"), link("d/l", "../../outside"), file("d/l/mine")],
    "the root is a link": [link("d", "../outside"), file("d/mine")],
    "a hard link outwards": [dir("d"), hard("d/h", "../../outside/mine"), file("d/h")],
    "a hard link to another root": [dir("d"), hard("d/h", "outside/mine")],
    "a hard link through a link": [dir("d"), link("d/l", "../../outside"), hard("d/h", "d/l/mine")],
    "through a link that was there": [dir("d"), file("d/link/mine")],
    "a name that is not text": [dir("d"), file("d/\udcff")],
  };
  for (const [what, entries] of Object.entries(attacks)) {
    for (const args of [["web:/d", "HERE/out"], ["web:/d/.", "HERE/out"], ["web:/d", "HERE/new"]]) {
      await sh(here, `rm -rf ./* ./.bashrc && ${before}`);
      side.archive = () => writeTar(entries);
      const { code, stderr } = await side.cp(...args);
      const left = await sh(
        here,
        "cat outside/mine .bashrc; ls -A . outside; stat -c %h outside/mine",
      );
      const clean = left.replace("new\n", "");
      assert.equal(clean, "mine\nmine\n.:\n.bashrc\nout\noutside\n\noutside:\nmine\n1\n", what);
      // The other two have no such link, or take the root's name for what it is: nothing is harmed.
      if (args[0] === "web:/d" && args[1] === "HERE/out") assert.notEqual(code, 0, what + stderr);
    }
  }
});

test("cp: devices are left out with a word, what is in the way stays", async (side) => {
  const { here, there } = side;
  await sh(there, "mkdir d && echo f > d/f");
  side.archive = () =>
    writeTar([
      { path: "d", type: "directory" },
      { path: "d/null", type: "char", devMajor: 1, devMinor: 3 },
      { path: "d/pipe", type: "fifo" },
      { path: "d/f", type: "file" },
    ]);
  const left = await side.cp("web:/d", "HERE/new");
  assert.deepEqual([left.code, left.stderr], [
    0,
    "svc: warning: 2 devices and pipes are left out\n",
  ]);
  assert.equal(await sh(here, "ls new"), "f\n");
  await sh(here, "mkdir -p way/d && mkfifo way/d/f");
  await side.bad(["web:/d", "HERE/way"], 1, /way\/d\/f is in the way: it is no regular file/);
  await side.bad(["web:/d/f", "HERE/way/d/f"], 2, /it is no regular file/);
  await sh(here, "mkdir s && mkfifo s/p && echo f > s/f");
  side.archive = undefined;
  await side.good("HERE/s", "web:/s");
  assert.equal(await sh(there, "test -p s/p && cat s/f"), "f\n");
});

test("cp: what breaks half way is a failure", async (side) => {
  const { there } = side;
  await sh(there, "mkdir d && echo f > d/f");
  side.archive = () => {
    const parts = async function* () {
      yield new Uint8Array(
        await new Response(
          writeTar([{ path: "d", type: "directory" }]) as BodyInit,
        ).arrayBuffer(),
      ).subarray(0, 512);
      throw new Error("cut");
    };
    return ReadableStream.from(parts());
  };
  const { code } = await side.cp("web:/d", "HERE/new");
  assert.equal(code, 1);
});

Deno.test("cp: places are told apart", () => {
  const remote = (at: Record<string, string>) => ({ kind: "remote", at });
  const local = (path: string) => ({ kind: "local", path });
  assert.deepEqual(parsePlace("-"), { kind: "pipe" });
  assert.deepEqual(parsePlace("web:/etc"), remote({ name: "web", path: "/etc" }));
  assert.deepEqual(parsePlace("web:etc/."), remote({ name: "web", path: "/etc/." }));
  assert.deepEqual(
    parsePlace("web/1:/a:b"),
    remote({ name: "web", instance: "1", path: "/a:b" }),
  );
  for (const path of ["./a:b", "../a:b", "/a:b", "a", ".", ":a"]) {
    assert.deepEqual(parsePlace(path), local(path));
  }
  assert.deepEqual(parsePlace("C:\\a", "windows"), local("C:\\a"));
  assert.deepEqual(parsePlace("c:/a", "linux"), remote({ name: "c", path: "/a" }));
  for (const path of ["web:", "web/:/a", "a/b/c:/d"]) {
    assert.throws(() => parsePlace(path), { code: "usage" });
  }
});

Deno.test("cp: two places of a kind, an instance that is named twice: usage", async () => {
  for (
    const args of [
      ["a:/x", "b:/y"],
      ["./a", "./b"],
      ["-", "-"],
      ["-", "./b"],
      ["--instance", "1", "web/0:/x", "."],
    ]
  ) {
    const { code, requests } = await svcFake(["cp", ...args], { handler: () => new Response() });
    assert.deepEqual([code, requests], [2, []], args.join(" "));
  }
});
