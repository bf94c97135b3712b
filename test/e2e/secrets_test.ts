/** Secrets of every kind go through one server; afterwards none of them stands anywhere. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { createHmac } from "node:crypto";
import { join } from "node:path";
import { stringify } from "yaml";
import { TOKEN_EXCHANGE } from "../../lib/api/auth.ts";
import { Leaks } from "../fixtures/leaks.ts";
import { writeBaseLayout } from "../peers/base_image.ts";
import { eventually } from "../waits.ts";
import { e2eTest, type RunOptions, runTool, type Server, startServer, svc } from "./harness.ts";

const NEEDS = {
  commands: ["skopeo", "ssh-keygen"],
  files: ["/bin/busybox"],
  root: true,
};

const SKOPEO = ["--insecure-policy", "copy", "--quiet"];

function jwt(secret: string, claims: Record<string, unknown>): string {
  const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const exp = Math.floor(Date.now() / 1000) + 3600;
  const body = `${encode({ alg: "HS256" })}.${encode({ exp, ...claims })}`;
  return `${body}.${createHmac("sha256", secret).update(body).digest("base64url")}`;
}

/** What docker keeps its logins in. */
async function dockerConfig(folder: string, host: string, password: string): Promise<string> {
  await Deno.mkdir(folder);
  const auths = { [host]: { auth: btoa(`robot:${password}`) } };
  await Deno.writeTextFile(join(folder, "config.json"), JSON.stringify({ auths }));
  return folder;
}

interface Scene {
  leaks: Leaks;
  folder: string;
  server: Server;
  /** Another registry, which asks for a login. */
  upstream: Server;
  token: string;
  /** `svc ARGS` with the token; what it says is a place to look at. */
  run(args: string[], options?: RunOptions): Promise<string>;
  /** A request; so is what is answered. */
  ask(path: string, init?: RequestInit): Promise<{ status: number; text: string }>;
}

const bearer = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });

/** Tokens of each kind: accepted, misspelt, and of too little scope. */
async function tokens({ leaks, folder, server, token, ask, run }: Scene, shared: string) {
  const claims = { sub: "bob", scope: "api registry:pull" };
  const own = leaks.secret("JWT", jwt(shared, claims));
  const form = new URLSearchParams({
    grant_type: TOKEN_EXCHANGE.grantType,
    subject_token_type: TOKEN_EXCHANGE.jwt,
    subject_token: own,
    scope: "registry:pull",
  });
  const exchange = await fetch(`${server.url}/.svc/v1/auth/token`, { method: "POST", body: form });
  const exchanged = leaks.secret("exchanged token", (await exchange.json()).access_token);
  const profile = join(folder, "profile.yaml");
  await Deno.writeTextFile(
    profile,
    stringify({
      "current-context": "key",
      contexts: {
        key: { server: server.url, "key-auth": { "identity-file": join(folder, "key") } },
        static: { server: server.url, token },
      },
    }),
    { mode: 0o600 },
  );
  const env = { SVC_CONFIG: profile, SVC_SERVER: "", SVC_TOKEN: "", SVC_TOKEN_CACHE: "none" };
  const issued = await svc(["token", "issue"], { env });
  assert.equal(issued.code, 0, issued.stderr);
  const session = leaks.secret("SSH session", issued.stdout.trim());
  leaks.place("standard error of token issue", issued.stderr);
  for (const args of [["config", "view"], ["config", "view", "--output", "json"], ["doctor"]]) {
    await run(args, { env });
    await run([...args, "--context", "static"], { env });
  }
  for (const good of [token, own, session]) {
    assert.equal((await ask("/.svc/v1/info", bearer(good))).status, 200);
    await ask("/.svc/v1/deployments/none", { method: "DELETE", ...bearer(good) });
  }
  assert.equal((await ask("/.svc/v1/info", bearer(exchanged))).status, 403);
  for (const [name, value] of Object.entries({ token, own, session, exchanged })) {
    // Nearly all of a secret is one, too.
    const near = leaks.secret(`most of ${name}`, value.slice(0, -3));
    for (const bad of [near, `${value}x`]) {
      assert.equal((await ask("/.svc/v1/info", bearer(bad))).status, 401);
      const headers = { authorization: `Basic ${btoa(`robot:${bad}`)}` };
      assert.equal((await ask("/v2/team/base/manifests/v1", { headers })).status, 401);
      form.set("subject_token", bad);
      await ask("/.svc/v1/auth/token", { method: "POST", body: form });
    }
  }
}

/** Builds that succeed and fail, with a secret of their own and a login for their base image. */
async function builds({ leaks, folder, server, upstream, run }: Scene, login: string) {
  const secret = leaks.secret("build secret", "build-secret-of-the-e2e-test-77aa");
  await Deno.writeTextFile(join(folder, "build-secret"), secret);
  const config = await dockerConfig(join(folder, "client"), upstream.host, login);
  const read = "RUN --mount=type=secret,id=s grep -q build-secret /run/secrets/s";
  for (const [name, last] of [["good", ""], ["bad", " && cat /run/secrets/none"]]) {
    const context = join(folder, name);
    await Deno.mkdir(context);
    const from = `FROM ${upstream.host}/team/base:v1`;
    await Deno.writeTextFile(join(context, "Dockerfile"), `${from}\n${read}${last}\n`);
    const said = await run([
      ...["build", "--progress", "json", "-t", `team/${name}:v1`],
      ...["--secret", `id=s,src=${join(folder, "build-secret")}`, context],
    ], { env: { DOCKER_CONFIG: config } });
    assert.match(said, name === "good" ? /"result"/ : /exit code|exited/i);
  }
  // The server has no login of this name.
  await run(["build", "--no-push", join(folder, "good")], {
    env: { DOCKER_CONFIG: "/nonexistent" },
  });
  await server.logged(/build/);
}

/** Keys of a bucket that refuses them, and repeats what it was told. */
async function bucketKeys({ leaks, folder }: Scene) {
  await using bucket = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, (request) => {
    const told = JSON.stringify([...request.headers]).replace(/[<>&]/g, "");
    const body =
      `<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>${told}</Message></Error>`;
    return new Response(body, { status: 403, headers: { "content-type": "application/xml" } });
  });
  const endpoint = encodeURIComponent(`http://127.0.0.1:${bucket.addr.port}`);
  const key = leaks.secret("S3 key", "s3/secret+key-of-the-e2e-test=41");
  const location = `s3://bucket-of-the-test?region=r&endpoint=${endpoint}&path_style=true` +
    `&access_key=ACCESSKEYOFTEST&secret_key=${encodeURIComponent(key)}`;
  const data = join(folder, "bucket-data");
  const env = { SVC_LOG_LEVEL: "debug", SVC_STORAGE: location, SVC_HOST_NETWORK: "1" };
  for (
    const args of [
      ["doctor", "storage", location],
      ["serve", "--addr", "127.0.0.1:0", "--data-dir", data],
      ["serve", "--addr", "127.0.0.1:0", "--data-dir", data, "--storage", `${location}&colour=red`],
    ]
  ) {
    const { code, stdout, stderr } = await svc(args, {
      env: { ...env, SVC_DEPLOY_BACKEND: "bare" },
    });
    assert.notEqual(code, 0, stdout);
    assert.match(leaks.place(`svc ${args[0]} on a bucket`, stdout + stderr), /Cannot|bucket/);
  }
}

e2eTest(
  "no secret is ever written: logs, events, errors, the record, the data, the profile shown",
  NEEDS,
  async () => {
    const leaks = new Leaks();
    const folder = await Deno.makeTempDir({ prefix: "svc-e2e-secrets-" });
    try {
      const token = leaks.secret("static token", "static-token-of-the-e2e-test-9f2c");
      const shared = leaks.secret("HS256 secret", "hs256-secret-of-the-e2e-test-0123456789");
      const installation = leaks.secret(
        "installation secret",
        "installation-secret-of-the-e2e-test",
      );
      const robot = leaks.secret("upstream password", "upstream-password-of-the-e2e-test");
      const issuer = leaks.secret(
        "upstream HS256 secret",
        "upstream-hs256-of-the-e2e-test-0123456",
      );
      await runTool("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", join(folder, "key")]);
      const lines = (await Deno.readTextFile(join(folder, "key"))).split("\n");
      leaks.secret("SSH key", lines.at(-3)!);
      await using upstream = await startServer({
        env: { SVC_LOG_LEVEL: "debug", SVC_AUTH_TOKEN: robot, SVC_JWT_HS256_SECRET: issuer },
      });
      const login = leaks.secret(
        "docker login",
        jwt(issuer, { sub: "me", scope: "registry:pull" }),
      );
      const layout = join(folder, "layout");
      await writeBaseLayout(layout, "base");
      await runTool("skopeo", [
        ...[...SKOPEO, "--dest-tls-verify=false", "--dest-creds", `robot:${robot}`],
        ...[`oci:${layout}:base`, `docker://${upstream.host}/team/base:v1`],
      ]);
      await using server = await startServer({
        env: {
          SVC_LOG_LEVEL: "debug",
          SVC_AUTH_TOKEN: token,
          SVC_JWT_HS256_SECRET: shared,
          SVC_INSTALLATION_SECRET: installation,
          SVC_AUTHORIZED_KEYS: await Deno.readTextFile(join(folder, "key.pub")),
          SVC_REGISTRY_MIRROR: `up=http://${upstream.host}`,
          DOCKER_CONFIG: await dockerConfig(join(folder, "server"), upstream.host, robot),
        },
      });
      const scene: Scene = {
        ...{ leaks, folder, server, upstream, token },
        async run(args, { env, ...options } = {}) {
          const result = await server.svc(args, { ...options, env: { SVC_TOKEN: token, ...env } });
          return leaks.place(`svc ${args.slice(0, 2).join(" ")}`, result.stdout + result.stderr);
        },
        async ask(path, init) {
          const response = await fetch(server.url + path, init);
          const fields = JSON.stringify([...response.headers]);
          const text = await response.text();
          leaks.place(`the answer of ${path}`, fields + text);
          return { status: response.status, text };
        },
      };
      await runTool("skopeo", [
        ...[...SKOPEO, "--src-tls-verify=false", "--src-creds", `any:${token}`],
        ...[`docker://${server.host}/up/team/base:v1`, `dir:${folder}/pulled`],
      ]);
      await tokens(scene, shared);
      await builds(scene, login);
      await bucketKeys(scene);
      const parts = ['"up/team/base:v1"', '"team/good:v1"', '"denied"', '"bob"'];
      // What a request did is noted when its answer has gone out.
      await eventually("all is on record", async () => {
        const record = await scene.run(["activity", "--output", "json"]);
        return parts.every((part) => record.includes(part));
      });
      for (const [name, one] of Object.entries({ server, upstream })) {
        await one.stop();
        leaks.place(`the log of ${name}`, one.log());
        await leaks.folder(`the data of ${name}`, one.dataDir);
      }
      leaks.check();
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
);
