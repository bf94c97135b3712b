/** What a build takes besides its context, and that none of it stays where it should not. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import type { Entitlement } from "../../lib/api/build_entitlements.ts";
import type { AgentSource, SecretSource } from "../../lib/build/inputs.ts";
import { writeTar } from "../../lib/oci/tar_write.ts";
import { layerEntries } from "../../test/contract/builder.ts";
import { build, type MemoryImages } from "../../test/contract/builder_fixture.ts";
import { type EngineFixture, openNewEngine } from "../../test/contract/engine_fixture.ts";
import { requireTools } from "../../test/e2e/harness.ts";
import { startServers } from "../../test/golden/buildkit/servers.ts";

const { ignore } = requireTools({
  root: true,
  commands: ["runc", "git", "ssh-agent", "ssh-add", "ssh-keygen"],
  files: ["/bin/busybox"],
});

const test = (
  name: string,
  fn: (fixture: EngineFixture) => Promise<void>,
  entitlements?: Entitlement[],
) =>
  Deno.test({
    name: `inputs: ${name}`,
    ignore,
    fn: async () => {
      await using fixture = await openNewEngine(entitlements);
      await fn(fixture);
      await fixture.assertClean();
    },
  });

async function* filesBelow(folder: string): AsyncGenerator<string> {
  for await (const { name, isFile, isDirectory } of Deno.readDir(folder)) {
    const path = join(folder, name);
    if (isDirectory) yield* filesBelow(path);
    else if (isFile) yield path;
  }
}

const latin = new TextDecoder("latin1");

/** Files below a folder that hold the text. */
async function holding(folder: string, text: string): Promise<string[]> {
  const found: string[] = [];
  for await (const path of filesBelow(folder)) {
    // A file that is written beside its name is renamed to it, or gone.
    const bytes = await Deno.readFile(path).catch((error) => {
      if (error instanceof Deno.errors.NotFound) return new Uint8Array();
      throw error;
    });
    if (latin.decode(bytes).includes(text)) found.push(path);
  }
  return found;
}

function blobsHold(images: MemoryImages, text: string): boolean {
  return [...images.blobs.values(), ...images.manifests.values()].some((bytes) => {
    const plain = bytes[0] === 0x1f && bytes[1] === 0x8b ? gunzipSync(bytes) : bytes;
    return latin.decode(plain).includes(text);
  });
}

const secretsOf = (values: Record<string, string>): SecretSource => ({
  get: (id) => Promise.resolve(id in values ? new TextEncoder().encode(values[id]) : undefined),
});

test("a secret is in no layer, no record, no key, no event", async (fixture) => {
  const value = `secret-${crypto.randomUUID()}`;
  const files = {
    Dockerfile: [
      "FROM base",
      "RUN --mount=type=secret,id=token,env=TOKEN --mount=type=secret,id=token " +
      "--mount=type=secret,id=token,target=/deep/token " +
      "wc -c < /run/secrets/token > /length; echo seen $TOKEN; cat /deep/token; " +
      'printf "%s" "$TOKEN" | head -c 20; sleep 0.1; printf "%s" "$TOKEN" | tail -c +21',
      'RUN test ! -e /run/secrets && test ! -e /deep && test -z "$TOKEN"',
    ].join("\n"),
  };
  const built = await build(fixture.builder, files, { secrets: secretsOf({ token: value }) });
  assert.match(built.output, /seen \*\*\*/);
  assert.equal(JSON.stringify(built.events).includes(value), false, "it was printed");
  assert.equal(blobsHold(fixture.images, value), false, "it is in the image");
  assert.deepEqual(await holding(fixture.folder, value), [], "it is on disk");
  const { manifest } = await fixture.images.image("result");
  const entries = layerEntries(fixture.images, manifest.layers[1].digest);
  assert.equal(entries.get("length")?.text, `${value.length}\n`);
  const other = await build(fixture.builder, files, { secrets: secretsOf({ token: "another" }) });
  assert.equal(other.result.ran, 0, "another value is no other step");
  const failing = { Dockerfile: `${files.Dockerfile.split("\n", 2).join("\n")}; exit 3\n` };
  await assert.rejects(
    build(fixture.builder, failing, { secrets: secretsOf({ token: value }) }),
    (error: Error & { detail?: unknown }) => {
      assert.match(error.message, /exit code 3$/);
      assert.equal(JSON.stringify([error.message, error.detail]).includes(value), false);
      return true;
    },
  );
  assert.deepEqual(await holding(fixture.folder, value), []);
});

/** An agent of this machine with one key, and its socket. */
async function agent(folder: string): Promise<{ path: string; key: string } & AsyncDisposable> {
  const path = join(folder, "agent-socket");
  const child = new Deno.Command("ssh-agent", { args: ["-D", "-a", path], stdout: "null" }).spawn();
  const key = join(folder, "key");
  const tool = async (command: string, args: string[]) => {
    const env = { SSH_AUTH_SOCK: path };
    return (await new Deno.Command(command, { args, env, stderr: "null" }).output()).success;
  };
  assert.ok(await tool("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", key]));
  for (let tries = 0; !await tool("ssh-add", ["-q", key]); tries++) {
    assert.ok(tries < 600, "the agent does not answer");
    await new Promise((next) => setTimeout(next, 50));
  }
  return {
    path,
    key: (await Deno.readTextFile(`${key}.pub`)).split(" ")[1],
    [Symbol.asyncDispose]: async () => {
      child.kill();
      await child.status;
    },
  };
}

const sourceOf = (path: string): AgentSource => ({
  has: (id) => id === "default",
  connect: async () => {
    const connection = await Deno.connect({ transport: "unix", path });
    return {
      readable: connection.readable,
      writable: connection.writable,
      [Symbol.asyncDispose]: () => {
        try {
          connection.close();
        } catch {
          // its streams closed it
        }
        return Promise.resolve();
      },
    };
  },
});

/** ssh-add of this machine with its libraries, to be run in an image that has none. */
async function sshAdd(folder: string): Promise<string> {
  const path = (await output("sh", ["-c", "command -v ssh-add"])).trim();
  const libraries = (await output("ldd", [path])).match(/\/\S+/g)!;
  await Deno.mkdir(folder);
  for (const file of [path, ...libraries]) {
    await Deno.copyFile(file, join(folder, file.split("/").pop()!));
  }
  const loader = libraries.find((file) => file.includes("/ld-"))!.split("/").pop();
  return `/tools/${loader} --library-path /tools /tools/ssh-add`;
}

async function output(command: string, args: string[]): Promise<string> {
  return new TextDecoder().decode((await new Deno.Command(command, { args }).output()).stdout);
}

test("an SSH agent answers in the step, and its socket goes with it", async (fixture) => {
  await using real = await agent(fixture.folder);
  const root = join(fixture.folder, "tools");
  const command = await sshAdd(root);
  const open = () =>
    Promise.resolve({ root, ownersKept: false, [Symbol.asyncDispose]: () => Promise.resolve() });
  const files = {
    Dockerfile: [
      "FROM base",
      `RUN --mount=type=ssh,mode=0666 --mount=from=tools,target=/tools ${command} -L && ` +
      `${command} -l && stat -c %a $SSH_AUTH_SOCK`,
      "RUN test ! -e /run/buildkit",
      "RUN --mount=type=ssh,id=other test ! -e $SSH_AUTH_SOCK",
    ].join("\n"),
  };
  const built = await build(fixture.builder, files, {
    ssh: sourceOf(real.path),
    contexts: { tools: { kind: "tree", open } },
  });
  assert.ok(built.output.includes(real.key), built.output);
  assert.match(built.output, /\n666\n$/);
  await assert.rejects(
    build(fixture.builder, { Dockerfile: "FROM base\nRUN --mount=type=ssh,required true\n" }),
    /SSH agent default is required and was not given/,
  );
});

test("URLs: fetched again only where the server says so; checksums", async (fixture) => {
  await using servers = await startServers(join(fixture.folder, "served"));
  const body = { "/f": "first\n" };
  const { dockerfile } = servers.fill({
    name: "url",
    dockerfile: "FROM base\nADD {{http}}/f /f\nRUN cat /f\n",
    serve: body,
  });
  const url = /http\S*/.exec(dockerfile)![0];
  const files = { Dockerfile: dockerfile };
  assert.match((await build(fixture.builder, files)).output, /first/);
  assert.equal((await build(fixture.builder, files)).result.ran, 0);
  servers.serve(url, "second\n");
  const changed = await build(fixture.builder, files);
  assert.match(changed.output, /second/);
  assert.equal(changed.result.ran, 2);
  const asked = servers.requests;
  const pinned = {
    Dockerfile: `FROM base\nADD --checksum=${"sha256:" + await sha256("second\n")} ${url} /f\n`,
  };
  await build(fixture.builder, pinned);
  assert.equal(servers.requests, asked + 1);
  await build(fixture.builder, pinned);
  assert.equal(servers.requests, asked + 1, "a checksum says that nothing changed");
  await assert.rejects(
    build(fixture.builder, { Dockerfile: `FROM base\nADD ${url}-missing /f\n` }),
    /the server answered 404/,
  );
});

async function sha256(text: string): Promise<string> {
  const bytes = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

test("git: --keep-git-dir, queries, commits, what is not there", async (fixture) => {
  await using servers = await startServers(join(fixture.folder, "served"));
  const run = async (line: string, then = "true") => {
    const { dockerfile } = servers.fill({
      name: "git",
      dockerfile: `FROM base\n${line}\nRUN cd /r && ${then}\n`,
    });
    return await build(fixture.builder, { Dockerfile: dockerfile });
  };
  const kept = await run("ADD --keep-git-dir=true {{git}} /r", "cat README; test -f .git/HEAD");
  assert.match(kept.output, /second/);
  const plain = await run("ADD {{git}}?ref=side /r", "ls -a; stat -c %Y side");
  assert.doesNotMatch(plain.output, /\.git/);
  assert.match(plain.output, /side[^]*1500000000/);
  const commit = await run("ADD {{git}}#{{commit}} /r", "cat README");
  assert.match(commit.output, /second/);
  const again = await run("ADD {{git}}?ref=side /r", "ls -a; stat -c %Y side");
  assert.equal(again.result.ran, 0, "the same commit is fetched once");
  await assert.rejects(run("ADD {{git}}#:nowhere /r"), /no folder nowhere/);
  await assert.rejects(run("ADD --checksum=0123456 {{git}} /r"), /is commit .*, not 0123456/);
});

test("named contexts: archives, URLs, images; each before stages and images", async (fixture) => {
  await using servers = await startServers(join(fixture.folder, "served"));
  const archive = await new Response(
    writeTar([{ path: "in/tar", type: "file", size: 2, body: new TextEncoder().encode("t\n") }]),
  ).bytes();
  const { contexts } = servers.fill({
    name: "contexts",
    dockerfile: "",
    contexts: { site: "{{http}}/a.tar", page: "{{http}}/page" },
    serve: { "/a.tar": archive, "/page": "plain\n" },
  });
  const files = {
    Dockerfile: [
      "FROM debian:12",
      "COPY --from=site in/tar /tar",
      "COPY --from=page page /page",
      "RUN --mount=from=site,target=/m cat /m/in/tar /tar /page",
    ].join("\n"),
  };
  const request = {
    contexts: {
      "docker.io/library/debian:12": { kind: "image" as const, name: "base" },
      site: { kind: "url" as const, url: String(contexts!.site) },
      page: { kind: "url" as const, url: String(contexts!.page) },
    },
  };
  const built = await build(fixture.builder, files, request);
  assert.equal(built.output, "t\nt\nplain\n");
  assert.equal((await build(fixture.builder, files, request)).result.ran, 0);
});

test("a context that the server fetches: git, an archive, a Dockerfile", async (fixture) => {
  await using servers = await startServers(join(fixture.folder, "served"));
  const entry = (path: string, text: string) => {
    const body = new TextEncoder().encode(text);
    return { path, type: "file" as const, size: body.length, body };
  };
  const archive = await new Response(writeTar([
    entry("Dockerfile", "FROM base\nCOPY . /all/\nRUN ls /all\n"),
    entry(".dockerignore", "hidden\nDockerfile\n.dockerignore\n"),
    entry("hidden", "h"),
    entry("seen", "s"),
  ])).bytes();
  const { contexts } = servers.fill({
    name: "remote",
    dockerfile: "",
    contexts: { tar: "{{http}}/a.tar", file: "{{http}}/recipe", git: "{{git}}" },
    serve: { "/a.tar": archive, "/recipe": "FROM base\nRUN echo alone\n" },
  });
  const from = async (contextUrl: string) =>
    (await build(fixture.builder, {}, { contextUrl })).output;
  assert.equal(await from(String(contexts!.tar)), "seen\n");
  assert.equal(await from(String(contexts!.file)), "alone\n");
  await assert.rejects(from(String(contexts!.git)), /Dockerfile is not in the build context/);
  await assert.rejects(from("nonsense"), { code: "argument_invalid" });
});

test("COPY --parents", async (fixture) => {
  await build(fixture.builder, {
    Dockerfile: [
      "FROM base",
      "COPY --parents a/b/one a/c/two /1/",
      "COPY --parents a/./b/one /2/",
      "COPY --parents **/*.txt /3/",
      "COPY --parents a/./**/t* /4/",
    ].join("\n"),
    "a/b/one": "1",
    "a/c/two": "2",
    "x/y/z.txt": "z",
    "top.txt": "t",
  });
  const { manifest } = await fixture.images.image("result");
  const paths = manifest.layers.slice(1).flatMap(({ digest }) =>
    [...layerEntries(fixture.images, digest)].filter(([, { type }]) => type === "file")
      .map(([path]) => path)
  );
  assert.deepEqual(paths.sort(), [
    "1/a/b/one",
    "1/a/c/two",
    "2/b/one",
    "3/top.txt",
    "3/x/y/z.txt",
    "4/c/two",
  ]);
});

test("xattrs and capabilities go from stage to stage and into layers", async (fixture) => {
  const note = new Map([["user.note", new TextEncoder().encode("v")]]);
  const archive = writeTar([{ path: "f", type: "file", size: 0, xattrs: note }]);
  await build(fixture.builder, {
    Dockerfile: "FROM base AS one\nADD a.tar /\nFROM base\nCOPY --from=one /f /f\n",
    "a.tar": { data: await new Response(archive).bytes() },
  });
  const { manifest } = await fixture.images.image("result");
  const entries = layerEntries(fixture.images, manifest.layers[1].digest);
  assert.equal(new TextDecoder().decode(entries.get("f")!.xattrs.get("user.note")), "v");
});

const MOUNT = {
  Dockerfile: "FROM base\nRUN --security=insecure mkdir /m && mount -t tmpfs none /m && echo yes\n",
};

test("--security=insecure: where the server does not permit it, it is refused", async (fixture) => {
  await assert.rejects(build(fixture.builder, MOUNT, { allow: ["security.insecure"] }), {
    code: "denied",
  });
});

test("--security=insecure: permitted and asked for", async (fixture) => {
  await assert.rejects(build(fixture.builder, MOUNT), { code: "denied" });
  const built = await build(fixture.builder, MOUNT, { allow: ["security.insecure"] });
  assert.match(built.output, /yes/);
}, ["security.insecure"]);

const HOST = { Dockerfile: "FROM base\nRUN --network=host readlink /proc/self/ns/net\n" };
const USUAL = { Dockerfile: "FROM base\nRUN echo && readlink /proc/self/ns/net\n" };

test("--network=host: where the server does not permit it, it is refused", async (fixture) => {
  const allow: Entitlement[] = ["network.host"];
  await assert.rejects(build(fixture.builder, HOST, { allow }), { code: "denied" });
  await assert.rejects(build(fixture.builder, USUAL, { network: "host", allow }), {
    code: "denied",
  });
});

test("--network=host: permitted and asked for", async (fixture) => {
  await assert.rejects(build(fixture.builder, HOST), { code: "denied" });
  const own = await Deno.readLink("/proc/self/ns/net");
  const { output } = await build(fixture.builder, HOST, { allow: ["network.host"] });
  assert.equal(output.trim(), own);
  // Who says it for the whole build asks for it.
  assert.equal((await build(fixture.builder, USUAL, { network: "host" })).output.trim(), own);
  assert.notEqual((await build(fixture.builder, USUAL)).output.trim(), own);
}, ["network.host"]);

test("hosts, networks, checks", async (fixture) => {
  const hosts = { Dockerfile: "FROM base\nRUN grep example /etc/hosts\n" };
  const built = await build(fixture.builder, hosts, { addHosts: ["a.example=10.0.0.7"] });
  assert.equal(built.output, "10.0.0.7\ta.example\n");
  const none = { Dockerfile: "FROM base\nRUN ip -o link | wc -l\n" };
  assert.match((await build(fixture.builder, none, { network: "none" })).output, /^1\n/);
  const gateway = await build(fixture.builder, hosts, { addHosts: ["a.example=host-gateway"] });
  assert.match(gateway.output, /^127\.0\.0\.1\ta\.example$/m);
  await assert.rejects(build(fixture.builder, hosts, { addHosts: ["nonsense"] }), {
    code: "argument_invalid",
  });
  await assert.rejects(
    build(fixture.builder, { Dockerfile: "# check=error=true\nFROM base AS Big\nRUN true\n" }),
    { code: "dockerfile_invalid" },
  );
});
