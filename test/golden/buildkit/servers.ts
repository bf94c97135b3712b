/** A web server and a git daemon on loopback, for ADD and for contexts. */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { freePort } from "../../fixtures/free_port.ts";
import type { Case } from "./case.ts";

/** What `Last-Modified` says of every file. */
const MODIFIED = "Tue, 15 Nov 1994 12:45:26 GMT";

const IDENTITY = {
  GIT_AUTHOR_NAME: "a",
  GIT_AUTHOR_EMAIL: "a@example",
  GIT_AUTHOR_DATE: "1500000000 +0000",
  GIT_COMMITTER_NAME: "a",
  GIT_COMMITTER_EMAIL: "a@example",
  GIT_COMMITTER_DATE: "1500000000 +0000",
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_CONFIG_SYSTEM: "/dev/null",
};

async function git(cwd: string, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await new Deno.Command("git", { args, cwd, env: IDENTITY })
    .output();
  const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes).trim();
  if (code !== 0) throw new Error(`git ${args.join(" ")}: ${decode(stderr)}`);
  return decode(stdout);
}

/** A repository of two branches and a tag; always the same commits. */
async function makeRepository(folder: string): Promise<string> {
  const work = join(folder, "repo.git");
  await Deno.mkdir(join(work, "sub"), { recursive: true });
  await git(work, "init", "-q", "-b", "main");
  await Deno.writeTextFile(join(work, "README"), "first\n");
  await Deno.writeTextFile(join(work, "sub/file"), "below\n");
  await Deno.chmod(join(work, "sub/file"), 0o755);
  await Deno.symlink("README", join(work, "link"));
  await git(work, "add", ".");
  await git(work, "commit", "-q", "-m", "one");
  await git(work, "tag", "-a", "v1", "-m", "version");
  await git(work, "checkout", "-q", "-b", "side");
  await Deno.writeTextFile(join(work, "side"), "side\n");
  await git(work, "add", ".");
  await git(work, "commit", "-q", "-m", "two");
  await git(work, "checkout", "-q", "main");
  await Deno.writeTextFile(join(work, "README"), "second\n");
  await git(work, "commit", "-q", "-am", "three");
  return await git(work, "rev-parse", "HEAD");
}

/** The child and all that it started. */
function endGroup(child: Deno.ChildProcess): void {
  Deno.kill(-child.pid, "SIGKILL");
}

/** A daemon on a port that nobody else took meanwhile. */
async function gitDaemon(folder: string): Promise<{ port: number; child: Deno.ChildProcess }> {
  for (let attempt = 1;; attempt++) {
    const port = freePort();
    const child = new Deno.Command("git", {
      args: [
        "daemon",
        "--reuseaddr",
        "--export-all",
        "--listen=127.0.0.1",
        `--port=${port}`,
        `--base-path=${folder}`,
        folder,
      ],
      env: IDENTITY,
      // In a group of its own: git starts the daemon as another process.
      detached: true,
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).spawn();
    let ended = false;
    child.status.then(() => ended = true);
    for (let tries = 0; !ended && tries < 600; tries++) {
      const url = `git://127.0.0.1:${port}/repo.git`;
      if ((await new Deno.Command("git", { args: ["ls-remote", url] }).output()).success) {
        return { port, child };
      }
      await new Promise((next) => setTimeout(next, 50));
    }
    if (!ended) endGroup(child);
    await child.status;
    if (attempt === 5) throw new Error("git daemon does not answer");
  }
}

export interface Servers extends AsyncDisposable {
  /** The case with its placeholders filled in; its files are being served. */
  fill(test: Case): Case;
  /** Another content for an address that {@linkcode fill} gave. */
  serve(url: string, body: string): void;
  /** How often files were asked for. */
  readonly requests: number;
  /** Puts the placeholders back into what a builder made of them. */
  blank(text: string): string;
}

export async function startServers(folder: string): Promise<Servers> {
  const commit = await makeRepository(folder);
  const { port, child: daemon } = await gitDaemon(folder);
  let requests = 0;
  const served = new Map<string, string | Uint8Array>();
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, (request) => {
    const body = served.get(new URL(request.url).pathname);
    requests++;
    if (body === undefined) return new Response("no such file", { status: 404 });
    const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
    const etag = `"${createHash("sha256").update(bytes).digest("hex")}"`;
    if (request.headers.get("if-none-match") === etag) return new Response(null, { status: 304 });
    return new Response(bytes as Uint8Array<ArrayBuffer>, {
      headers: { "last-modified": MODIFIED, etag, "content-type": "application/octet-stream" },
    });
  });
  let cases = 0;
  return {
    fill(test) {
      const http = `http://127.0.0.1:${server.addr.port}/c${cases++}`;
      for (const [path, body] of Object.entries(test.serve ?? {})) {
        served.set(`${new URL(http).pathname}${path}`, body);
      }
      const text = (value: string) =>
        value.replaceAll("{{http}}", http)
          .replaceAll("{{git}}", `git://127.0.0.1:${port}/repo.git`)
          .replaceAll("{{commit}}", commit)
          .replaceAll("{{id}}", crypto.randomUUID())
          .replace(
            /\{\{sha256:(\w+)\}\}/g,
            (_, word) => createHash("sha256").update(word).digest("hex"),
          );
      return {
        ...test,
        dockerfile: text(test.dockerfile),
        contexts: test.contexts && Object.fromEntries(
          Object.entries(test.contexts).map((
            [name, value],
          ) => [name, typeof value === "string" ? text(value) : value]),
        ),
      };
    },
    serve: (url, body) => void served.set(new URL(url).pathname, body),
    get requests() {
      return requests;
    },
    blank(value) {
      const http = new RegExp(`http://127\\.0\\.0\\.1:${server.addr.port}/c\\d+`, "g");
      const result = value.replaceAll(`git://127.0.0.1:${port}/repo.git`, "{{git}}")
        .replaceAll(http, "{{http}}");
      return result.replaceAll(
        /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g,
        "{{id}}",
      );
    },
    async [Symbol.asyncDispose]() {
      await server.shutdown();
      endGroup(daemon);
      await daemon.status;
    },
  };
}
