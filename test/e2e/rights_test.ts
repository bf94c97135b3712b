/** What a policy does not grant stays out of reach by every way round: images, keys, tokens, lists. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { SignJWT } from "jose";
import { withContext } from "./build_helpers.ts";
import type { EnrolledKey, KeyList } from "../../lib/api/auth.ts";
import { sshSign, testKey } from "../../lib/auth/ssh/testing.ts";
import {
  baseImage,
  e2eTest,
  type RunOutput,
  runTool,
  type Server,
  startServer,
} from "./harness.ts";
import { jwt, push, SECRET, TOKEN } from "./rights.ts";

const POLICY = `rules:
  - {subjects: token, actions: "*"}
  - {subjects: puller, actions: [build, deploy, pull]}
  - {subjects: builder, actions: [build, deploy]}
  - {subjects: enroller, methods: [jwt], actions: [push]}
  - {subjects: enroller, methods: [ssh-key], actions: [build, deploy]}
  - {subjects: watcher, actions: read}
  - {subjects: listener, actions: logs}
`;

const ENV = { SVC_AUTH_TOKEN: TOKEN, SVC_JWT_HS256_SECRET: SECRET, SVC_API_POLICY: POLICY };

const NEEDS = { root: true, commands: ["runc", "skopeo"], files: ["/bin/busybox"] };

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
  // Nor what is the builder's own: without authentication it knows nobody, but is told.
  const theirs = await baseImage(builder, "their/own:v1");
  await buildAll(
    server,
    [...names, `localhost:${server.port}/team/private:v1`, theirs.name],
    token,
  );
  await withContext({ Dockerfile: "FROM scratch\nCOPY Dockerfile /\n" }, async (folder) => {
    const built = await server.svc(["build", "-t", "team/own:v1", folder], env(token));
    assert.equal(built.code, 0, built.stderr);
  });
});

const API = "/.svc/v1";

function asker(server: Server) {
  return async (path: string, token: string, init: RequestInit = {}) => {
    const headers = { authorization: token.includes(" ") ? token : `Bearer ${token}` };
    const response = await fetch(server.url + path, { ...init, headers });
    return { status: response.status, text: await response.text() };
  };
}

e2eTest(
  "an identity that no rule names, or without a name, reads nothing; read and logs are granted each",
  {},
  async () => {
    await using server = await startServer({ env: { ...ENV, SVC_AUTH_KEYSTORE: "file" } });
    const ask = asker(server);
    const lists = ["deployments", "deployments/web", "storage", "tunnels"].map((path) =>
      `${API}/${path}`
    );
    const logs = `${API}/deployments/web/logs`;
    const admin = `${API}/activity`;
    const all = [`${API}/info`, ...lists, logs, admin, `${API}/auth/keys`];
    for (const name of ["stranger", ""]) {
      const token = await jwt(name);
      for (const path of all) {
        const { status, text } = await ask(path, token);
        assert.equal(status, 403, `${path} of ${JSON.stringify(name)}: ${text}`);
        assert.match(text, /no rule allows/);
      }
    }
    const statuses = async (name: string, paths: string[]) => {
      const token = await jwt(name);
      return await Promise.all(paths.map(async (path) => (await ask(path, token)).status));
    };
    assert.deepEqual(await statuses("watcher", [...lists, logs, admin]), [
      200,
      404,
      200,
      200,
      403,
      403,
    ]);
    assert.deepEqual(await statuses("listener", [...lists, logs, admin]), [
      403,
      403,
      403,
      403,
      404,
      403,
    ]);
    assert.deepEqual(await statuses("builder", [...lists, logs, admin]), [
      200,
      404,
      200,
      200,
      404,
      403,
    ]);
    assert.equal((await ask(admin, TOKEN)).status, 200);
  },
);

e2eTest(
  "who enrols a key gets no more with it than without, nor for longer than the server lets it",
  {},
  async () => {
    await using server = await startServer({
      env: { ...ENV, SVC_AUTH_KEYSTORE: "file", SVC_AUTH_KEY_MAX_AGE: "2h" },
    });
    const ask = asker(server);
    const key = testKey("ed25519");
    const enrol = async (token: string, body: Record<string, string>) =>
      await ask(`${API}/auth/keys`, token, {
        method: "POST",
        body: JSON.stringify({ publicKey: `${key.line} enroller`, ...body }),
      });
    const pusher = await jwt("enroller");
    const denied = await enrol(pusher, {});
    assert.equal(denied.status, 403, denied.text);
    assert.match(denied.text, /the policy lets that key build/);
    assert.equal((await enrol(pusher, { name: "token" })).status, 403);
    const late = new Date(Date.now() + 3 * 3_600_000).toISOString();
    const scope = "registry:push";
    assert.equal((await enrol(pusher, { scope, expiresAt: late })).status, 400);
    const enrolled = await enrol(pusher, { scope });
    assert.equal(enrolled.status, 201, enrolled.text);
    const { expiresAt, fingerprint } = JSON.parse(enrolled.text) as EnrolledKey;
    assert(Date.parse(expiresAt!) <= Date.now() + 2 * 3_600_000 + 1000);
    const file = await Deno.readTextFile(join(server.dataDir, "auth/authorized_keys"));
    assert.match(file, /scope="registry:push",expiry-time="\d{14}Z" ssh-ed25519/);
    // Again: the same key, with the end that it has.
    const again = await enrol(pusher, { scope });
    assert.equal(again.status, 200);
    assert.equal(JSON.parse(again.text).expiresAt, expiresAt);
    const seen = async (token: string) =>
      (JSON.parse((await ask(`${API}/auth/keys`, token)).text) as KeyList).keys.length;
    assert.deepEqual([await seen(pusher), await seen(await jwt("watcher")), await seen(TOKEN)], [
      1,
      0,
      1,
    ]);
    const path = `${API}/auth/keys/${encodeURIComponent(fingerprint)}`;
    assert.equal((await ask(path, await jwt("watcher"), { method: "DELETE" })).status, 403);
    assert.equal((await ask(path, pusher, { method: "DELETE" })).status, 204);
  },
);

e2eTest("registry tokens buy no other one, and end with what they were given for", {}, async () => {
  const key = testKey("ed25519");
  await using server = await startServer({
    env: {
      SVC_AUTH_TOKEN: TOKEN,
      SVC_JWT_HS256_SECRET: SECRET,
      SVC_AUTH_KEYSTORE: "file",
      SVC_REGISTRY_ANONYMOUS_PULL: "1",
    },
  });
  const ask = asker(server);
  const endpoint = `${API}/auth/registry`;
  const basic = (password: string) => `Basic ${btoa(`x:${password}`)}`;
  const buy = async (credential: string) => {
    const { status, text } = await ask(endpoint, credential);
    assert.equal(status, 200, text);
    return JSON.parse(text) as { token: string; expires_in: number };
  };
  const uploads = (token: string) => ask("/v2/a/blobs/uploads/", token, { method: "POST" });
  const { token } = await buy(basic(TOKEN));
  assert.equal((await uploads(token)).status, 202);
  assert.equal((await ask(endpoint, token)).status, 401);
  assert.equal((await buy(basic(token))).token, token);

  const endless = new SignJWT({ sub: "a", scope: "api" }).setProtectedHeader({ alg: "HS256" });
  const bytes = new TextEncoder().encode(SECRET);
  assert.equal((await ask(endpoint, await endless.sign(bytes))).status, 401);
  // Accepted for the minute by which clocks may differ.
  const brief = await new SignJWT({ sub: "a", scope: "api" }).setProtectedHeader({ alg: "HS256" })
    .setExpirationTime(Math.floor(Date.now() / 1000) - 5).sign(bytes);
  assert((await buy(brief)).expires_in <= 55);

  const line = { method: "POST", body: JSON.stringify({ publicKey: `${key.line} me` }) };
  const enrolled = JSON.parse((await ask(`${API}/auth/keys`, TOKEN, line)).text) as EnrolledKey;
  const { fingerprint } = enrolled;
  const post = async (path: string, body: unknown) =>
    JSON.parse(
      (await ask(`${API}/auth/${path}`, "", { method: "POST", body: JSON.stringify(body) })).text,
    );
  const { challenge, namespace } = await post("challenge", { fingerprint });
  const session = await post("session", {
    challenge,
    signature: sshSign(key, namespace, challenge),
  });
  const second = { publicKey: `${testKey("ed25519").line} me` };
  const heir = await ask(`${API}/auth/keys`, session.token, {
    method: "POST",
    body: JSON.stringify(second),
  });
  assert.equal((JSON.parse(heir.text) as EnrolledKey).expiresAt, enrolled.expiresAt, heir.text);
  const login = await buy(basic(session.token));
  assert.equal((await uploads(login.token)).status, 202);
  const removed = await ask(`${API}/auth/keys/${encodeURIComponent(fingerprint)}`, TOKEN, {
    method: "DELETE",
  });
  assert.equal(removed.status, 204);
  for (const credential of [login.token, basic(login.token)]) {
    assert.equal((await uploads(credential)).status, 401);
    assert.equal((await ask(endpoint, credential)).status, 401);
  }
});

e2eTest("a browser is answered under the server's own names alone, programs under any", {
  commands: ["curl", "skopeo"],
  files: ["/bin/busybox"],
}, async () => {
  await using server = await startServer();
  const image = await baseImage(server, "team/base:v1");
  const rebound = ["--connect-to", `evil.example:${server.port}:127.0.0.1:${server.port}`];
  const get = async (path: string, ...more: string[]) => {
    const url = `http://evil.example:${server.port}${path}`;
    const { stdout } = await runTool("curl", [
      "-s",
      "-w",
      "\\n%{http_code}",
      ...rebound,
      ...more,
      url,
    ]);
    return stdout;
  };
  const paths = [
    "/v2/_catalog",
    "/v2/team/base/manifests/v1",
    `${API}/deployments`,
    `${API}/activity`,
  ];
  for (const path of paths) {
    for (const header of ["User-Agent: Mozilla/5.0", "Sec-Fetch-Site: same-origin"]) {
      const answer = await get(path, "-H", header);
      assert.match(answer, /421$/);
      assert.match(answer, /SVC_ADVERTISE_REGISTRY|no name of this server/);
      assert(!answer.includes('team/base"'));
    }
    assert.match(await get(path), /200$/);
  }
  const own = await runTool("curl", ["-s", "-A", "Mozilla/5.0", `${server.url}/v2/_catalog`]);
  assert.match(own.stdout, /team\/base/);
  await runTool("skopeo", ["inspect", "--tls-verify=false", `docker://${image.name}`]);

  // Nor where only pulls need no credential; with one it is not told from a program.
  await using pulls = await startServer({
    env: { SVC_AUTH_TOKEN: TOKEN, SVC_REGISTRY_ANONYMOUS_PULL: "1" },
  });
  const catalog = async (...more: string[]) => {
    const args = ["-s", "-w", "%{http_code}", ...more, `${pulls.url}/v2/_catalog`];
    return (await runTool("curl", args)).stdout.slice(-3);
  };
  const browser = ["-A", "Mozilla/5.0"];
  const evil = ["-H", "Host: evil.example"];
  const bought = await fetch(`${pulls.url}${API}/auth/registry`);
  const { token } = await bought.json() as { token: string };
  const bearer = (text: string) => ["-H", `Authorization: Bearer ${text}`];
  assert.equal(await catalog(...browser, ...evil), "421");
  assert.equal(await catalog(...browser, ...evil, ...bearer(token)), "421");
  assert.equal(await catalog(...browser, ...evil, ...bearer(TOKEN)), "200");
  assert.equal(await catalog(...browser), "200");
  assert.equal(await catalog(...evil), "200");
});
