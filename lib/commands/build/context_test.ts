import assert from "node:assert/strict";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import type { Io } from "../../base/terminal.ts";
import { decompress } from "../../oci/compression.ts";
import type { TarHeader } from "../../oci/tar.ts";
import { readTar } from "../../oci/tar_read.ts";
import { TarWriter } from "../../oci/tar_write.ts";
import { openContext } from "./context.ts";

interface Sent {
  dockerfile: string;
  headers: TarHeader[];
  text: Record<string, string>;
  warnings: string;
}

async function send(directory: string, file?: string, stdin: BodyInit = ""): Promise<Sent> {
  let warnings = "";
  const output = { isTerminal: false, size: () => undefined };
  const io: Io = {
    stdin: { readable: new Response(stdin).body!, isTerminal: false },
    stdout: { ...output, write: () => Promise.resolve() },
    stderr: {
      ...output,
      write: (data) => {
        warnings += data;
        return Promise.resolve();
      },
    },
    signal: new AbortController().signal,
  };
  const { body, dockerfile } = await openContext(directory, file, io);
  const headers: TarHeader[] = [];
  const text: Record<string, string> = {};
  for await (const { header, body: content } of readTar(decompress(body))) {
    headers.push(header);
    text[header.path] = await new Response(content as BodyInit).text();
  }
  await io.stdin.readable.cancel().catch(() => {/* read by the context */});
  return { dockerfile, headers, text, warnings };
}

/** A folder removed at the end; values are file texts, `null` is a folder. */
async function tree(files: Record<string, string | null>) {
  const root = await Deno.makeTempDir({ prefix: "svc-context-" });
  for (const [path, text] of Object.entries(files)) {
    await Deno.mkdir(join(root, path, text === null ? "." : ".."), { recursive: true });
    if (text !== null) await Deno.writeTextFile(join(root, path), text);
  }
  return { root, [Symbol.asyncDispose]: () => Deno.remove(root, { recursive: true }) };
}

const paths = (sent: Sent) => sent.headers.map((header) => header.path);

Deno.test("a context: order fixed, modes kept, owners and sockets left out", async () => {
  await using made = await tree({
    "b/z": "z",
    "b/a": "a",
    "B": "B",
    Dockerfile: "FROM x\n",
    empty: null,
  });
  await Deno.chmod(join(made.root, "b/a"), 0o4755);
  await Deno.symlink("b/a", join(made.root, "link"));
  await Deno.symlink("/nowhere", join(made.root, "dangling"));
  using _socket = Deno.listen({ transport: "unix", path: join(made.root, "sock") });
  const sent = await send(made.root);
  assert.deepEqual(
    paths(sent),
    ["B", "Dockerfile", "b", "b/a", "b/z", "dangling", "empty", "link"],
  );
  const by = Object.fromEntries(sent.headers.map((header) => [header.path, header]));
  assert.equal(by["b/a"].mode, 0o4755);
  assert.equal(by["empty"].type, "directory");
  assert.deepEqual([by.link.type, by.link.linkpath], ["symlink", "b/a"]);
  assert.ok(sent.headers.every(({ uid, gid }) => uid === 0 && gid === 0));
  assert.equal(sent.warnings, "svc: warning: sock is a socket; it is not sent\n");
  assert.equal(sent.dockerfile, "Dockerfile");
  assert.deepEqual(await send(made.root), sent);
});

Deno.test("a named pipe is neither read nor sent", async () => {
  await using made = await tree({ Dockerfile: "" });
  const { success } = await new Deno.Command("mkfifo", { args: [join(made.root, "pipe")] })
    .output();
  assert.ok(success);
  const sent = await send(made.root);
  assert.deepEqual(paths(sent), ["Dockerfile"]);
  assert.match(sent.warnings, /pipe is a named pipe; it is not sent/);
});

Deno.test(".dockerignore: nothing it names leaves, but what the server reads", async () => {
  await using made = await tree({
    ".dockerignore": "*\n!src\nsrc/*.tmp\n!keep/deep/file\n",
    Dockerfile: "FROM x\n",
    secret: "s",
    "src/a": "a",
    "src/b.tmp": "b",
    "keep/deep/file": "f",
    "keep/deep/other": "o",
    "keep/none/other": "o",
  });
  const sent = await send(made.root);
  assert.deepEqual(paths(sent), [
    ".dockerignore",
    "Dockerfile",
    "keep",
    "keep/deep",
    "keep/deep/file",
    "src",
    "src/a",
  ]);
});

Deno.test("a Dockerfile in a folder has its own .dockerignore", async () => {
  await using made = await tree({
    ".dockerignore": "a\n",
    "docker/app": "FROM x\n",
    "docker/app.dockerignore": "b\ndocker\n",
    a: "a",
    b: "b",
  });
  const sent = await send(made.root, join(made.root, "docker/app"));
  assert.equal(sent.dockerfile, "docker/app");
  assert.deepEqual(paths(sent), [
    ".dockerignore",
    "a",
    "docker",
    "docker/app",
    "docker/app.dockerignore",
  ]);
});

Deno.test("a Dockerfile from outside travels along and stays out of every COPY", async () => {
  await using made = await tree({ ".dockerignore": "a\n", a: "a", b: "b" });
  await using outside = await tree({ "other.Dockerfile": "FROM y\n" });
  for (const [file, stdin] of [[join(outside.root, "other.Dockerfile"), ""], ["-", "FROM y\n"]]) {
    const sent = await send(made.root, file, stdin);
    assert.match(sent.dockerfile, /^\.dockerfile\.[0-9a-f]{16}$/);
    assert.equal(sent.text[sent.dockerfile], "FROM y\n");
    assert.deepEqual(sent.text[`${sent.dockerfile}.dockerignore`].split("\n").filter(Boolean), [
      "a",
      sent.dockerfile,
      `${sent.dockerfile}.dockerignore`,
    ]);
    assert.deepEqual(paths(sent).slice(0, 2), [".dockerignore", "b"]);
  }
  await Deno.writeTextFile(join(outside.root, "other.Dockerfile.dockerignore"), "b\n");
  const own = await send(made.root, join(outside.root, "other.Dockerfile"));
  assert.deepEqual(paths(own).slice(0, 2), [".dockerignore", "a"]);
});

Deno.test("a Dockerfile or ignore rules that a link leads to a device are not read", async () => {
  for (const name of ["Dockerfile", ".dockerignore"]) {
    await using made = await tree(name === "Dockerfile" ? {} : { Dockerfile: "FROM x\n" });
    await Deno.symlink("/dev/zero", join(made.root, name));
    await assert.rejects(send(made.root), { message: /it is no regular file/ });
  }
});

Deno.test("standard input: an archive, or a Dockerfile alone", async () => {
  const text = `FROM x\n# ${"grüße ".repeat(200)}\n`;
  const sent = await send("-", undefined, text);
  assert.equal(sent.dockerfile, "Dockerfile");
  assert.equal(sent.text.Dockerfile, text);
  assert.equal(sent.text[".dockerignore"], "Dockerfile\n.dockerignore\n");
  const short = await send("-", undefined, "FROM x");
  assert.equal(short.text.Dockerfile, "FROM x");
  await assert.rejects(send("-", "Other", "FROM x"), {
    code: "usage",
    message: /standard input is a Dockerfile, not an archive, and --file names another/,
  });
  await assert.rejects(send("-", undefined, "x\n".repeat(3 << 20)), { code: "usage" });
  const writer = new TarWriter();
  const parts = [
    writer.header({ path: "Other", type: "file", size: 7 }),
    new TextEncoder().encode("FROM y\n"),
    writer.data(new TextEncoder().encode("FROM y\n")),
    writer.end(),
  ];
  const archive = await new Response(new Blob(parts as BlobPart[])).bytes();
  for (const bytes of [archive, new Uint8Array(gzipSync(archive))]) {
    const whole = await send("-", "Other", bytes);
    assert.deepEqual([whole.dockerfile, whole.text], ["Other", { Other: "FROM y\n" }]);
  }
});

Deno.test("files larger than a chunk, empty ones and names that are not ASCII", async () => {
  await using made = await tree({ Dockerfile: "", "größe": "x".repeat(700_001) });
  const sent = await send(made.root);
  assert.equal(sent.text["größe"].length, 700_001);
  assert.equal(sent.text["Dockerfile"], "");
});

Deno.test("a Dockerfile larger than the server takes is refused by name", async () => {
  await using made = await tree({
    Dockerfile: "FROM x\n" + "#\n".repeat(2 << 20),
    small: "FROM x\n",
  });
  const refused = {
    code: "dockerfile_invalid",
    message: /^Cannot read Dockerfile .*: it has more than 4\.0 MiB$/,
  };
  await assert.rejects(send(made.root), refused);
  await assert.rejects(send(made.root, join(made.root, "Dockerfile")), refused);
  assert.equal((await send(made.root, join(made.root, "small"))).dockerfile, "small");
});
