/** What a policy does not grant stays out of reach by every way round: images, keys, tokens, lists. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { SignJWT } from "jose";
import { writeBaseLayout } from "../peers/base_image.ts";
import { withContext } from "./build_helpers.ts";
import { e2eTest, type RunOutput, runTool, type Server, startServer } from "./harness.ts";

const SECRET = "hs256-secret-of-the-rights-tests-0123456789";
const TOKEN = "e2e-static-token-of-the-rights";

const jwt = (sub: string, scope = "api") =>
  new SignJWT({ sub, scope }).setProtectedHeader({ alg: "HS256" }).setExpirationTime("10m")
    .sign(new TextEncoder().encode(SECRET));

const POLICY = `rules:
  - {subjects: token, actions: "*"}
  - {subjects: puller, actions: [build, deploy, pull]}
  - {subjects: builder, actions: [build, deploy]}
  - {subjects: enroller, methods: [jwt], actions: [push]}
  - {subjects: enroller, methods: [ssh-key], actions: [build, deploy]}
`;

const ENV = { SVC_AUTH_TOKEN: TOKEN, SVC_JWT_HS256_SECRET: SECRET, SVC_API_POLICY: POLICY };

const NEEDS = { root: true, commands: ["runc", "skopeo"], files: ["/bin/busybox"] };

async function push(server: Server, ...names: string[]): Promise<string> {
  const folder = await Deno.makeTempDir({ prefix: "svc-e2e-rights-" });
  try {
    const digest = await writeBaseLayout(join(folder, "layout"), "base", {});
    for (const name of names) {
      const to = ["--dest-tls-verify=false", "--dest-creds", `x:${TOKEN}`];
      await runTool("skopeo", [
        ...["--insecure-policy", "copy", "--quiet", ...to],
        ...[`oci:${folder}/layout:base`, `docker://${server.host}/${name}`],
      ]);
    }
    return digest;
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Nothing of what the image holds is told, and the answer says what is missing. */
function refused({ code, stdout, stderr }: RunOutput, what: string): void {
  assert.notEqual(code, 0, `${what}: it was let through:\n${stdout}${stderr}`);
  assert.match(stderr, /no rule allows|lacks the scope|unauthorized|credential/i, what);
  assert(!/BusyBox/.test(stdout + stderr), `${what}: it ran`);
}

const run = "RUN busybox | head -1\n";

/** Every way that a Dockerfile names an image, of this name. */
const dockerfiles = (name: string): Record<string, string> => ({
  "FROM": `FROM ${name}\n${run}`,
  "COPY --from": `FROM scratch\nCOPY --from=${name} / /\n${run}`,
  "RUN --mount from": `FROM scratch\nCOPY --from=${name} /bin /bin\n` +
    `RUN --mount=type=bind,from=${name},target=/m ls /m\n`,
});

async function buildAll(server: Server, names: string[], token: string): Promise<void> {
  for (const name of names) {
    for (const [how, Dockerfile] of Object.entries(dockerfiles(name))) {
      await withContext({ Dockerfile }, async (folder) => {
        const args = ["build", "--progress", "plain", "--output", "type=image", folder];
        refused(await server.svc(args, { env: { SVC_TOKEN: token } }), `${how} ${name}`);
      });
    }
  }
}

e2eTest(
  "images of this server are for those who may pull, by whatever name a build or a deployment has",
  NEEDS,
  async () => {
    await using server = await startServer({ env: ENV });
    const digest = await push(server, "team/private:v1");
    const [allowed, token] = await Promise.all([jwt("puller"), jwt("builder")]);
    const { port, host } = server;
    const names = [
      `${host}/team/private:v1`,
      `localhost:${port}/team/private:v1`,
      `127.1.2.3:${port}/team/private:v1`,
      "team/private:v1",
      `team/private@${digest}`,
      `${host}/other/name@${digest}`,
    ];
    const env = (token: string) => ({ env: { SVC_TOKEN: token } });
    // Whoever may pull builds first: what is kept of that is not for others either.
    await withContext({ Dockerfile: dockerfiles(names[0]).FROM }, async (folder) => {
      const built = await server.svc(["build", "--progress", "plain", folder], env(allowed));
      assert.equal(built.code, 0, built.stderr);
      assert.match(built.stderr + built.stdout, /BusyBox/);
    });
    await buildAll(server, names, token);
    await withContext({ Dockerfile: `FROM base\n${run}` }, async (folder) => {
      for (const name of names.slice(0, 2)) {
        const context = ["--build-context", `base=docker-image://${name}`];
        refused(await server.svc(["build", ...context, folder], env(token)), `context ${name}`);
      }
    });
    await withContext({ Dockerfile: "FROM scratch\nCOPY Dockerfile /\n" }, async (folder) => {
      const cache = ["--progress", "plain", "--cache-from", `type=registry,ref=${names[0]}`];
      const built = await server.svc(["build", ...cache, "-t", "mine:v1", folder], env(token));
      // A cache that cannot be had is a warning; who may build still publishes.
      assert.equal(built.code, 0, built.stderr);
      assert.match(built.stderr, /no rule allows the caller to pull/);
    });
    for (const name of [...names.slice(0, 2), "team/private:v1", `team/private@${digest}`]) {
      const spec = `name: mine\nimage: ${name}\ncommand: [busybox]\n`;
      const deploy = (token: string, ...more: string[]) =>
        server.svc(["deploy", ...more, "-f", "-"], { ...env(token), stdin: spec });
      refused(await deploy(token), `deploy ${name}`);
      refused(await deploy(token, "--session"), `deploy --session ${name}`);
    }
    const spec = `name: theirs\nimage: ${names[0]}\ncommand: [sleep, "60"]\n`;
    const deployed = await server.svc(["deploy", "-f", "-"], { ...env(allowed), stdin: spec });
    assert.equal(deployed.code, 0, deployed.stderr);
    const auth = { headers: { authorization: `Bearer ${TOKEN}` } };
    await fetch(`${server.url}/.svc/v1/deployments/theirs`, { method: "DELETE", ...auth });
  },
);

e2eTest("a builder reads for its caller no more than the caller may", NEEDS, async () => {
  await using builder = await startServer();
  await using server = await startServer({
    env: { ...ENV, SVC_BUILDER_URL: `ws://${builder.host}` },
  });
  const digest = await push(server, "team/private:v1");
  const [allowed, token] = await Promise.all([jwt("puller"), jwt("builder")]);
  const names = [`${server.host}/team/private:v1`, "team/private:v1", `team/private@${digest}`];
  const env = (token: string) => ({ env: { SVC_TOKEN: token } });
  await withContext({ Dockerfile: dockerfiles(names[0]).FROM }, async (folder) => {
    const args = ["build", "--progress", "plain", "-t", "team/app:v1", folder];
    const built = await server.svc(args, env(allowed));
    assert.equal(built.code, 0, built.stderr);
  });
  await buildAll(server, [...names, `localhost:${server.port}/team/private:v1`], token);
  await withContext({ Dockerfile: "FROM scratch\nCOPY Dockerfile /\n" }, async (folder) => {
    const built = await server.svc(["build", "-t", "team/own:v1", folder], env(token));
    assert.equal(built.code, 0, built.stderr);
  });
});
