/** `svc caretaker` as a process of its own, and its probe. */
import assert from "node:assert/strict";
import { InstallationSecret } from "../../lib/auth/installation_secret.ts";
import { ServerCaretakers } from "../../lib/server/caretakers/caretakers.ts";
import { CaretakerTokens } from "../../lib/server/caretakers/tokens.ts";
import { startTestServer } from "../../lib/server/testing.ts";
import { readAll } from "../../lib/wire/testing.ts";
import { eventually, PATIENCE_MS } from "../waits.ts";
import { e2eTest, EXECUTABLE, freePort, svc } from "./harness.ts";

const WEB = { key: "web-0-aaa", deployment: "web", instance: "web-0" };

const text = (data: Uint8Array) => new TextDecoder().decode(data);

e2eTest("svc caretaker: attaches, is checked, serves a port and ends in good order", {
  files: [EXECUTABLE],
}, async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-caretaker-" });
  const tokens = new CaretakerTokens(new InstallationSecret("s".repeat(40)));
  const caretakers = new ServerCaretakers({ tokens, image: "agent:1", url: "http://unused" });
  await using server = await startTestServer({ deps: { caretakers } });
  caretakers.expect(WEB);
  const config = {
    version: 1,
    server: { url: server.base, instance: WEB.key },
    status: `${folder}/status.sock`,
    roles: { portForward: {}, agentRelay: { folder: `${folder}/agents` } },
  };
  const env = {
    SVC_CARETAKER_CONFIG: JSON.stringify(config),
    SVC_CARETAKER_TOKEN: tokens.mint(WEB.key),
  };
  const early = await svc(["caretaker", "check"], { env });
  assert.equal(early.code, 1);
  assert.match(early.stderr, /Cannot check the caretaker: none answers/);

  const child = new Deno.Command(EXECUTABLE, {
    args: ["caretaker"],
    env,
    stdout: "null",
    stderr: "piped",
  }).spawn();
  const errors = new Response(child.stderr).text();
  try {
    await caretakers.started(WEB.key, AbortSignal.timeout(PATIENCE_MS));
    // The server knows a moment before the caretaker itself.
    const ready = await eventually("it is ready", async () => {
      const found = await svc(["caretaker", "check"], { env });
      return found.code === 0 && found.stdout;
    });
    assert.equal(ready, "ready: portForward, agentRelay\n");
    using workload = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const answered = (async () => {
      using connection = await workload.accept();
      await connection.write(new TextEncoder().encode("hello"));
    })();
    const stream = await caretakers.dial(WEB.key, workload.addr.port, "tcp");
    assert.equal(text(await readAll(stream)), "hello");
    stream.reset();
    await answered;
    child.kill("SIGTERM");
    assert.equal((await child.status).code, 0, await errors);
  } finally {
    try {
      child.kill("SIGKILL");
    } catch {
      // it has ended
    }
    await child.status;
    await Deno.remove(folder, { recursive: true });
  }
});

e2eTest("svc caretaker: what it cannot do is refused by name, with an exit code", {
  files: [EXECUTABLE],
}, async () => {
  const refused = async (env: Record<string, string>, code: number, message: RegExp) => {
    const { code: found, stderr } = await svc(["caretaker"], { env });
    assert.equal(found, code, stderr);
    assert.match(stderr, message);
  };
  const document = (more: Record<string, unknown>) => ({
    SVC_CARETAKER_CONFIG: JSON.stringify({ version: 1, roles: { portForward: {} }, ...more }),
  });
  await refused({}, 2, /SVC_CARETAKER_CONFIG is not set/);
  await refused(document({ version: 7 }), 2, /this build reads 1, not 7/);
  await refused(document({ roles: { docker: {} } }), 2, /role docker: it is not in this build yet/);
  const server = { url: `http://127.0.0.1:${freePort()}`, instance: "a" };
  await refused(document({ server }), 2, /SVC_CARETAKER_TOKEN is not set/);
});

e2eTest("svc image agent: the executable and its libraries alone, which run with nothing else", {
  files: [EXECUTABLE],
  commands: ["tar", "chroot", "unshare"],
  root: true,
}, async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-agent-image-" });
  try {
    const made = await svc(["image", "agent", `oci:${folder}/image:1`]);
    assert.equal(made.code, 0, made.stderr);
    const json = async (digest?: string) =>
      JSON.parse(
        await Deno.readTextFile(
          `${folder}/image/${digest ? `blobs/${digest.replace(":", "/")}` : "index.json"}`,
        ),
      );
    const manifest = await json((await json()).manifests[0].digest);
    const { config } = await json(manifest.config.digest);
    assert.deepEqual(config.Cmd, ["caretaker"]);
    const root = `${folder}/root`;
    await Deno.mkdir(root);
    const layer = `${folder}/image/blobs/${manifest.layers[0].digest.replace(":", "/")}`;
    const run = (command: string, args: string[]) =>
      new Deno.Command(command, { args, env: { DENO_DIR: "/tmp/deno" } }).output();
    assert.ok((await run("tar", ["-xzf", layer, "-C", root])).success);
    await Deno.mkdir(`${root}/proc`);
    const inside = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"';
    const words = ["-m", "sh", "-c", inside, root, ...config.Entrypoint, "version"];
    const { stdout, stderr } = await run("unshare", words);
    assert.match(new TextDecoder().decode(stdout), /^svc \d/, new TextDecoder().decode(stderr));
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

e2eTest("svc image: what it does not make is refused", { files: [EXECUTABLE] }, async () => {
  const { code, stderr } = await svc(["image", "server"]);
  assert.equal(code, 2);
  assert.match(stderr, /unknown image "server"/);
});
