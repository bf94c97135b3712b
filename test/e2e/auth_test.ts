/** Real clients log in: docker, podman, skopeo, a pull secret, ssh-keygen, ssh-agent, curl with TLS. */
import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { join } from "node:path";
import { SignJWT } from "jose";
import {
  type ChallengeResponse,
  type SessionResponse,
  TOKEN_EXCHANGE,
  type TokenExchangeResponse,
} from "../../lib/api/auth.ts";
import type { WellKnown } from "../../lib/api/info.ts";
import { Leaks } from "../fixtures/leaks.ts";
import { writeBaseLayout } from "../peers/base_image.ts";
import { startDockerd } from "../peers/dockerd.ts";
import { makeAuthority } from "../peers/pki.ts";
import { startAgent } from "../peers/sshd.ts";
import { eventually } from "../waits.ts";
import { e2eTest, runTool, type Server, startServer } from "./harness.ts";

const TOKEN = "e2e-static-token-9f2c41d8";

async function withFolder(work: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-e2e-auth-" });
  try {
    await work(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const layout = (folder: string) =>
  writeBaseLayout(join(folder, "layout"), "base").then(() => `oci:${folder}/layout:base`);

const SKOPEO = ["--insecure-policy", "copy", "--quiet"];

async function fails(work: Promise<unknown>, why: RegExp): Promise<void> {
  await assert.rejects(work, (error) => {
    assert.match(String(error), why);
    assert(!String(error).includes(TOKEN));
    return true;
  });
}

/** A Secret of type kubernetes.io/dockerconfigjson, as a kubelet has it in its hands. */
async function pullSecret(folder: string, host: string, token: string): Promise<string> {
  const path = join(folder, "pull-secret.json");
  const auth = btoa(`kubelet:${token}`);
  await Deno.writeTextFile(path, JSON.stringify({ auths: { [host]: { auth } } }));
  return path;
}

e2eTest("skopeo and podman log in with the token, and a pull secret pulls", {
  commands: ["skopeo", "podman"],
  files: ["/bin/busybox"],
  root: true,
}, async () => {
  await using server = await startServer({ env: { SVC_AUTH_TOKEN: TOKEN } });
  await withFolder(async (folder) => {
    const source = await layout(folder);
    const image = `docker://${server.host}/team/base:v1`;
    for (const tool of ["skopeo", "podman"]) {
      const authfile = join(folder, `${tool}.json`);
      const login = (password: string) =>
        runTool(tool, [
          ...["login", "--tls-verify=false", "--authfile", authfile],
          ...["-u", "anybody", "-p", password, server.host],
        ]);
      const copy = (...args: string[]) =>
        runTool("skopeo", [...SKOPEO, "--authfile", authfile, ...args]);
      await fails(login("wrong"), /unauthorized|invalid username\/password|401/i);
      await login(TOKEN);
      await copy("--dest-tls-verify=false", source, image);
      await copy("--src-tls-verify=false", image, `dir:${folder}/${tool}`);
    }
    const secret = await pullSecret(folder, server.host, TOKEN);
    const pull = ["--src-tls-verify=false", image, `dir:${folder}/kubelet`];
    await runTool("skopeo", [...SKOPEO, "--authfile", secret, ...pull]);
    await fails(
      runTool("skopeo", [...SKOPEO, "--src-no-creds", ...pull]),
      /unauthorized|credential/i,
    );
    assert(!server.log().includes(TOKEN));
  });
});

e2eTest("docker logs in; without a login it pulls where pulls are anonymous", {
  commands: ["skopeo", "docker", "dockerd"],
  files: ["/bin/busybox"],
  root: true,
}, async () => {
  await withFolder(async (folder) => {
    const source = await layout(folder);
    await Deno.mkdir(join(folder, "dockerd"));
    await using dockerd = await startDockerd(join(folder, "dockerd"));
    for (const anonymous of [false, true]) {
      await using server = await startServer({
        env: {
          SVC_AUTH_TOKEN: TOKEN,
          SVC_REGISTRY_ANONYMOUS_PULL: anonymous ? "1" : "0",
        },
      });
      const name = `${server.host}/team/base:v1`;
      const creds = ["--dest-tls-verify=false", "--dest-creds", `x:${TOKEN}`];
      await runTool("skopeo", [...SKOPEO, ...creds, source, `docker://${name}`]);
      const config = join(folder, `config-${anonymous}`);
      const docker = (...args: string[]) =>
        runTool("docker", ["--config", config, "-H", dockerd.host, ...args]);
      const copy = `${server.host}/docker/copy:v1`;
      if (anonymous) {
        await docker("pull", "--quiet", name);
        await docker("tag", name, copy);
        await fails(docker("push", copy), /unauthorized|denied|authentication|no basic auth/i);
      } else {
        await fails(docker("pull", "--quiet", name), /unauthorized|no basic auth|credential/i);
      }
      const login = ["login", "-u", "anybody", server.host, "-p"];
      await fails(docker(...login, "wrong"), /unauthorized|401/i);
      await docker(...login, TOKEN);
      await docker("pull", "--quiet", name);
      await docker("tag", name, copy);
      await docker("push", copy);
      assert(!server.log().includes(TOKEN));
    }
  });
});

const api = async <T>(server: Server, path: string, body: unknown): Promise<T> => {
  const response = await fetch(server.url + path, { method: "POST", body: JSON.stringify(body) });
  const text = await response.text();
  assert(response.ok, `${path}: ${response.status} ${text}`);
  return JSON.parse(text);
};

e2eTest("ssh-keygen and ssh-agent prove keys of every kind", {
  commands: ["ssh-keygen", "ssh-agent", "ssh-add"],
}, async () => {
  await withFolder(async (folder) => {
    const kinds = [["ed25519"], ["ecdsa", "-b", "256"], ["ecdsa", "-b", "521"], [
      "rsa",
      "-b",
      "3072",
    ]];
    const keys: { path: string; name: string; agent: boolean }[] = [];
    for (const [n, kind] of kinds.entries()) {
      const path = join(folder, `key${n}`);
      const make = ["-q", "-t", ...kind, "-N", "", "-C", `user ${n}`, "-f", path];
      await runTool("ssh-keygen", make);
      keys.push({ path, name: `user ${n}`, agent: false }, {
        path,
        name: `user ${n}`,
        agent: true,
      });
    }
    const lines = await Promise.all(
      [0, 1, 2, 3].map((n) => Deno.readTextFile(join(folder, `key${n}.pub`))),
    );
    await using server = await startServer({ env: { SVC_AUTHORIZED_KEYS: lines.join("") } });
    await using agent = await startAgent();
    for (const n of kinds.keys()) await agent.add(join(folder, `key${n}`));
    const known = await (await fetch(`${server.url}/.well-known/svc`)).json() as WellKnown;
    const { challenge: ask, session: open, namespace } = known.keyAuth!;
    for (const { path, name, agent: byAgent } of keys) {
      const listed = await runTool("ssh-keygen", ["-lf", `${path}.pub`]);
      const fingerprint = listed.stdout.split(" ")[1];
      const { challenge } = await api<ChallengeResponse>(server, ask, { fingerprint, ttl: "10m" });
      const file = join(folder, "challenge");
      await Deno.writeTextFile(file, challenge);
      await runTool("ssh-keygen", [
        ...["-q", "-Y", "sign", "-n", namespace, "-f", byAgent ? `${path}.pub` : path],
        file,
      ], byAgent ? { env: { SSH_AUTH_SOCK: agent.socket } } : {});
      const signature = await Deno.readTextFile(`${file}.sig`);
      await Deno.remove(`${file}.sig`);
      const session = await api<SessionResponse>(server, open, { challenge, signature });
      assert.equal(session.subject, name);
      const info = await server.svc(["info", "--output", "json"], {
        env: { SVC_TOKEN: session.token },
      });
      assert.equal(info.code, 0, info.stderr);
      assert.equal(JSON.parse(info.stdout).identity.subject, name);
      assert(!server.log().includes(session.token));
    }
    const without = await server.svc(["info"]);
    assert.equal(without.code, 1);
    assert.match(without.stderr, /credential is needed/);
  });
});

e2eTest("HTTPS with client certificates, replaced while it serves", {
  commands: ["openssl", "curl"],
}, async () => {
  await withFolder(async (folder) => {
    const ca = await makeAuthority(folder, "ca");
    const server = await ca.issue("server");
    const alice = await ca.issue("alice");
    const foreign = await makeAuthority(folder, "foreign");
    const mallory = await foreign.issue("mallory");
    await using serving = await startServer({
      tls: { authority: ca, certificate: server },
      args: ["--tls-client-ca", ca.cert],
    });
    const { port } = serving;
    const url = `https://localhost:${port}`;
    const curl = (path: string, ...args: string[]) =>
      runTool("curl", ["-sS", "--max-time", "120", "--cacert", ca.cert, ...args, url + path]);
    const serial = async () => {
      const { stdout } = await new Deno.Command("sh", {
        args: [
          "-c",
          `openssl s_client -connect 127.0.0.1:${port} </dev/null 2>/dev/null | openssl x509 -serial -noout`,
        ],
      }).output();
      return new TextDecoder().decode(stdout);
    };
    const status = ["-o", "/dev/null", "-w", "%{http_code}"];
    const info = "/.svc/v1/info";
    assert.equal((await curl(info, ...status)).stdout, "401");
    const asAlice = ["--cert", alice.cert, "--key", alice.key];
    const { identity } = JSON.parse((await curl(info, ...asAlice)).stdout);
    assert.equal(identity.subject, "alice");
    const asMallory = ["--cert", mallory.cert, "--key", mallory.key];
    assert.equal((await curl(info, ...status, ...asMallory)).stdout, "401");
    const before = await serial();
    const next = await ca.issue("next");
    await Deno.writeTextFile(server.cert, "rubbish");
    await serving.logged(/last good ones stay in use/);
    assert.equal(await serial(), before);
    await Deno.copyFile(next.key, server.key);
    await Deno.copyFile(next.cert, server.cert);
    await eventually("the next certificate", async () => await serial() !== before);
    assert.equal((await curl(info, ...status, ...asAlice)).stdout, "200");
  });
});

e2eTest("a CI job pushes with no stored secret, and no secret is ever written", {
  commands: ["skopeo", "ssh-keygen"],
  files: ["/bin/busybox"],
}, async () => {
  const issuer = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const iss = "https://ci.example";
  await using jwks = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen: () => {} },
    () => Response.json({ keys: [{ ...issuer.publicKey.export({ format: "jwk" }), kid: "1" }] }),
  );
  await withFolder(async (folder) => {
    const map = join(folder, "scopes.yaml");
    const rule =
      "{ claims: { repository: org/* }, scope: registry:push, subject: 'ci:{repository}' }";
    await Deno.writeTextFile(map, `rules:\n  - ${rule}\n`);
    const hs256 = "shared-secret-of-the-e2e-test-0123456789";
    const installation = "installation-secret-of-the-e2e-test-0123";
    await runTool("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", join(folder, "key")]);
    await using server = await startServer({
      env: {
        SVC_LOG_LEVEL: "debug",
        SVC_AUTH_TOKEN: TOKEN,
        SVC_JWT_HS256_SECRET: hs256,
        SVC_INSTALLATION_SECRET: installation,
        SVC_JWT_JWKS_URL: `http://127.0.0.1:${jwks.addr.port}/jwks`,
        SVC_JWT_ISSUER: iss,
        SVC_JWT_AUDIENCE: "svc",
        SVC_JWT_SCOPE_MAP: map,
        SVC_REGISTRY_ANONYMOUS_PULL: "1",
        SVC_AUTHORIZED_KEYS: await Deno.readTextFile(join(folder, "key.pub")),
      },
    });
    const known = await (await fetch(`${server.url}/.well-known/svc`)).json() as WellKnown;
    assert.deepEqual(known.auth, ["token", "jwt", "ssh-key"]);
    const leaks = new Leaks();
    const ask = async (path: string, init: RequestInit = {}) => {
      const response = await fetch(server.url + path, init);
      const text = await response.text();
      leaks.place("an answer", text);
      return { status: response.status, text };
    };
    const bearer = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });

    const job = await new SignJWT({ sub: "job", iss, aud: "svc", repository: "org/app" })
      .setProtectedHeader({ alg: "ES256", kid: "1" }).setExpirationTime("5m").sign(
        issuer.privateKey,
      );
    const exchange = await fetch(server.url + known.tokenEndpoint, {
      method: "POST",
      body: new URLSearchParams({
        grant_type: TOKEN_EXCHANGE.grantType,
        subject_token_type: TOKEN_EXCHANGE.jwt,
        subject_token: job,
      }),
    });
    assert.equal(exchange.status, 200);
    const { access_token: token } = await exchange.json() as TokenExchangeResponse;
    const image = `docker://${server.host}/org/app:v1`;
    const creds = ["--dest-tls-verify=false", "--dest-creds", `ci:${token}`];
    await runTool("skopeo", [...SKOPEO, ...creds, await layout(folder), image]);
    await runTool("skopeo", [...SKOPEO, "--src-tls-verify=false", image, `dir:${folder}/pulled`]);

    const shared = await new SignJWT({ sub: "bob", iss, aud: "svc", scope: "api" })
      .setProtectedHeader({ alg: "HS256" }).setExpirationTime("5m")
      .sign(new TextEncoder().encode(hs256));
    assert.equal((await ask("/.svc/v1/info", bearer(shared))).status, 200);
    const registry = await fetch(`${server.url}/.svc/v1/auth/registry`, {
      headers: { authorization: `Basic ${btoa(`x:${TOKEN}`)}` },
    });
    const pullToken = (await registry.json()).token;
    assert.equal((await ask("/v2/", bearer(pullToken))).status, 200);
    const spoiled = [`${TOKEN}x`, `${job}x`, `${shared.slice(0, -2)}`, `${token}x`];
    for (const bad of spoiled) {
      assert.equal((await ask("/.svc/v1/info", bearer(bad))).status, 401);
      assert.equal((await ask("/v2/org/app/manifests/v1", bearer(bad))).status, 401);
      const form = new URLSearchParams({
        grant_type: TOKEN_EXCHANGE.grantType,
        subject_token: bad,
      });
      assert.equal((await ask(known.tokenEndpoint!, { method: "POST", body: form })).status, 400);
    }
    assert.equal(
      (await ask("/.svc/v1/deployments/x", { method: "DELETE", ...bearer(token) })).status,
      403,
    );
    const parts = ['"ci:org/app"', '"org/app:v1"', '"pull"', '"anonymous"', '"denied"'];
    // What a request did is noted when its answer has gone out.
    await eventually("all is on record", async () => {
      const record = (await ask("/.svc/v1/activity", bearer(TOKEN))).text;
      return parts.every((part) => record.includes(part));
    });
    await server.stop();
    const secrets = { TOKEN, hs256, installation, job, token, shared, pullToken };
    for (const [name, value] of Object.entries(secrets)) leaks.secret(name, value);
    leaks.place("the log", server.log());
    await leaks.folder("the data", server.dataDir);
    leaks.check();
  });
});
