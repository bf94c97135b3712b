/** The rows of SPEC.md's tables KeyAuth and TokenExchange, SVC_TOKEN and SVC_TOKEN_CACHE, against a server. */
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { join } from "node:path";
import { stringify } from "yaml";
import { makeKey, startAgent, tool } from "../peers/sshd.ts";
import { e2eTest, EXECUTABLE, type RunOutput, startServer, svc } from "./harness.ts";

const NEEDS = { commands: ["ssh-keygen", "ssh-agent", "skopeo"] };
const SECRET = "a secret of the tests, long enough for HS256";

function jwt(claims: Record<string, unknown>): string {
  const encode = (value: unknown) =>
    btoa(JSON.stringify(value)).replace(/=+$/, "").replaceAll("+", "-").replaceAll("/", "_");
  const now = Math.floor(Date.now() / 1000);
  const body = `${encode({ alg: "HS256", typ: "JWT" })}.${
    encode({ iat: now, exp: now + 3600, ...claims })
  }`;
  return `${body}.${createHmac("sha256", SECRET).update(body).digest("base64url")}`;
}

const fingerprintOf = async (key: string) =>
  (await tool("ssh-keygen", ["-lf", `${key}.pub`])).split(" ")[1];

function good(result: RunOutput): string {
  assert.equal(result.code, 0, result.stderr);
  return result.stdout;
}

function bad({ code, stderr }: RunOutput, said: RegExp): void {
  assert.equal(code, 1, stderr);
  assert.match(stderr, said);
}

async function names(folder: string): Promise<string[]> {
  try {
    return (await Array.fromAsync(Deno.readDir(folder))).map(({ name }) => name);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

e2eTest(
  "KeyAuth, TokenExchange, SVC_TOKEN, SVC_TOKEN_CACHE; login, logout, token issue",
  NEEDS,
  async (t) => {
    const home = await Deno.makeTempDir({ prefix: "svc-home-" });
    const key = (name: string) => join(home, name);
    await Promise.all([
      makeKey(key("ed25519")),
      makeKey(key("ecdsa"), "ecdsa"),
      makeKey(key("rsa"), "rsa"),
      makeKey(key("locked"), "ed25519", "open sesame"),
      makeKey(key("stranger")),
    ]);
    const enrolled = ["ed25519", "ecdsa", "rsa", "locked"];
    const lines = await Promise.all(
      enrolled.map(async (name) =>
        `${(await Deno.readTextFile(`${key(name)}.pub`)).split(" ").slice(0, 2).join(" ")} ${name}`
      ),
    );
    const token = "static-token-of-the-test";
    const server = await startServer({
      env: {
        SVC_AUTH_TOKEN: token,
        SVC_AUTHORIZED_KEYS: lines.join("\n"),
        SVC_JWT_HS256_SECRET: SECRET,
      },
    });
    const runtime = join(home, "run");
    await Deno.mkdir(runtime, { mode: 0o700 });
    const base = {
      HOME: home,
      XDG_RUNTIME_DIR: runtime,
      XDG_CONFIG_HOME: join(home, "config"),
      DBUS_SESSION_BUS_ADDRESS: "",
      SSH_AUTH_SOCK: "",
      SVC_SERVER: "",
      SVC_CONFIG: "",
    };
    const cache = join(runtime, "svc", "tokens");
    let count = 0;
    const call = async (
      args: string[],
      context: Record<string, unknown>,
      env: Record<string, string> = {},
    ) => {
      const config = join(home, `config-${count++}.yaml`);
      await Deno.writeTextFile(
        config,
        stringify({ "current-context": "t", contexts: { t: { server: server.url, ...context } } }),
      );
      return await svc(args, { env: { ...base, SVC_CONFIG: config, ...env } });
    };
    const who = (context: Record<string, unknown>, env?: Record<string, string>) =>
      call(["info", "--output", "json"], context, env).then(good).then((text) =>
        JSON.parse(text).identity
      );
    const keyAuth = (name: string, more = {}) => ({
      "key-auth": { "identity-file": key(name), ...more },
    });
    try {
      await t.step(
        "key-auth.identity-file: ed25519, ecdsa, rsa; one that is not enrolled",
        async () => {
          for (const name of ["ed25519", "ecdsa", "rsa"]) {
            assert.equal((await who(keyAuth(name))).subject, name);
          }
          bad(
            await call(["ps"], keyAuth("stranger")),
            /Cannot log in to .*: it does not take the key SHA256:/,
          );
        },
      );
      await t.step(
        "SVC_TOKEN_CACHE: file is private and spares the key; none keeps nothing",
        async () => {
          const kept = await names(cache);
          assert.equal(kept.length, 3);
          assert.equal((await Deno.stat(cache)).mode! & 0o777, 0o700);
          assert.equal((await Deno.stat(join(cache, kept[0]))).mode! & 0o777, 0o600);
          await Deno.rename(key("rsa"), key("rsa.away"));
          assert.equal((await who(keyAuth("rsa"))).subject, "rsa");
          const unkept = await call(["ps"], keyAuth("rsa"), { SVC_TOKEN_CACHE: "none" });
          assert.match(unkept.stderr, /Cannot read identity file/);
          await Deno.rename(key("rsa.away"), key("rsa"));
          const none = { SVC_TOKEN_CACHE: "none", XDG_RUNTIME_DIR: join(home, "other") };
          assert.equal((await who(keyAuth("rsa"), none)).subject, "rsa");
          assert.deepEqual(await names(join(home, "other")), []);
          bad(
            await call(["ps"], keyAuth("rsa"), { SVC_TOKEN_CACHE: "keyring" }),
            /Cannot keep tokens in the keyring/,
          );
          // What others could have written is not used, and a session that the server forgot is replaced.
          for (const name of await names(cache)) {
            const path = join(cache, name);
            await Deno.writeTextFile(
              path,
              JSON.stringify({ token: "forged", expiresAt: Date.now() + 1e6, server: "" }),
            );
          }
          assert.equal((await who(keyAuth("rsa"))).subject, "rsa");
        },
      );
      await t.step(
        "key-auth.key-fingerprint: a key of the agent, and the file's that is expected",
        async () => {
          await using agent = await startAgent();
          await agent.add(key("ecdsa"));
          const fingerprint = await fingerprintOf(key("ecdsa"));
          const env = { SSH_AUTH_SOCK: agent.socket, SVC_TOKEN_CACHE: "none" };
          const byAgent = { "key-auth": { "key-fingerprint": fingerprint } };
          assert.equal((await who(byAgent, env)).subject, "ecdsa");
          bad(
            await call(["ps"], {
              "key-auth": { "key-fingerprint": await fingerprintOf(key("rsa")) },
            }, env),
            /the SSH agent does not hold it/,
          );
          bad(await call(["ps"], byAgent, { SVC_TOKEN_CACHE: "none" }), /there is no SSH agent/);
          const pinned = await call(
            ["ps"],
            keyAuth("ed25519", { "key-fingerprint": fingerprint }),
            { SVC_TOKEN_CACHE: "none" },
          );
          assert.match(pinned.stderr, /its key is SHA256:.*, not SHA256:/);
        },
      );
      await t.step(
        "an encrypted identity file: SSH_ASKPASS, or an error where nobody can be asked",
        async () => {
          const askpass = join(home, "askpass");
          await Deno.writeTextFile(askpass, "#!/bin/sh\necho 'open sesame'\n", { mode: 0o755 });
          assert.equal(
            (await who(keyAuth("locked"), { SSH_ASKPASS: askpass, SVC_TOKEN_CACHE: "none" }))
              .subject,
            "locked",
          );
          bad(
            await call(["ps"], keyAuth("locked"), { SVC_TOKEN_CACHE: "none" }),
            /Cannot unlock .*locked: it is encrypted/,
          );
        },
      );
      await t.step("key-auth.scope and ttl", async () => {
        const scoped = await call(["ps"], keyAuth("ed25519", { scope: "caretaker" }));
        assert.equal(scoped.code, 1, scoped.stderr);
        good(await call(["ps"], keyAuth("ed25519", { ttl: "24h", scope: "api" })));
        const lasts = async (more: Record<string, string>) => {
          const context = keyAuth("ed25519", more);
          const issued = await call(["token", "issue", "--output", "json"], context);
          const { scope, expiresAt } = JSON.parse(good(issued));
          return { scope, hours: Math.round((Date.parse(expiresAt) - Date.now()) / 3_600_000) };
        };
        assert.deepEqual(await lasts({}), { scope: "api", hours: 1 });
        assert.deepEqual(await lasts({ ttl: "24h" }), { scope: "api", hours: 24 });
      });
      await t.step("SVC_TOKEN goes before key-auth and token", async () => {
        bad(await call(["ps"], keyAuth("ed25519"), { SVC_TOKEN: "wrong" }), /./);
        good(await call(["ps"], { token: "wrong" }, { SVC_TOKEN: token }));
        good(await call(["ps"], { token }));
        bad(await call(["ps"], { token: "wrong" }), /./);
      });
      await t.step(
        "token-exchange.enabled and scope: traded and kept; a scope too many is refused",
        async () => {
          const subject = jwt({ sub: "ci", scope: "api registry:pull" });
          const before = (await names(cache)).length;
          const exchanged = { token: subject, "token-exchange": { enabled: true, scope: "api" } };
          const identity = await who(exchanged);
          assert.equal(identity.subject, "ci");
          assert.deepEqual(identity.scopes, ["api"]);
          assert.equal((await names(cache)).length, before + 1);
          assert.equal((await who(exchanged)).subject, "ci");
          assert.equal((await names(cache)).length, before + 1);
          bad(
            await call(["ps"], {
              token: subject,
              "token-exchange": { enabled: true, scope: "peer" },
            }),
            /Cannot exchange the token at/,
          );
        },
      );
      await t.step("token issue", async () => {
        const issued = JSON.parse(good(
          await call(["token", "issue", "--scope", "registry:pull", "--output", "json"], {
            token: jwt({ sub: "ci", scope: "api registry:pull" }),
          }),
        ));
        assert.equal(issued.scope, "registry:pull");
        assert.ok(Date.parse(issued.expiresAt) > Date.now());
        const session = good(await call(["token", "issue", "--ttl", "10m"], keyAuth("ed25519")));
        good(await call(["ps"], {}, { SVC_TOKEN: session.trim() }));
      });
      await t.step("login with a token and with a key, --docker, logout", async () => {
        const env = {
          ...base,
          DOCKER_CONFIG: join(home, "docker"),
          REGISTRY_AUTH_FILE: join(home, "auth.json"),
        };
        const run = (args: string[], stdin?: string) => svc(args, { env, stdin });
        bad(await run(["login", "--server", server.url]), /there is no credential/);
        bad(await run(["login", "--server", server.url, "--token", "-"], "wrong\n"), /./);
        assert.deepEqual(await names(join(home, "config")), []);
        assert.match(
          good(await run(["login", "--server", server.url, "--token", "-"], `${token}\n`)),
          /logged in to/,
        );
        good(await run(["ps"]));
        good(await run(["login", "--identity-file", key("ed25519"), "--docker"]));
        assert.match(good(await run(["login"])), /as ed25519/);
        const docker = JSON.parse(await Deno.readTextFile(join(home, "docker", "config.json")));
        const hosts = Object.keys(docker.auths);
        // By the name that the server gives images, and by the one that it was reached by.
        assert.deepEqual(hosts, [`localhost:${server.port}`, server.host]);
        const [host] = hosts;
        assert.equal(atob(docker.auths[host].auth).split(":")[0], "svc");
        assert.equal(
          await tool("skopeo", ["login", "--get-login", host], {
            REGISTRY_AUTH_FILE: env.REGISTRY_AUTH_FILE,
          }),
          "svc\n",
        );
        good(await run(["logout", "--docker", "--all"]));
        assert.deepEqual(
          JSON.parse(await Deno.readTextFile(join(home, "docker", "config.json"))).auths,
          {},
        );
        assert.deepEqual(await names(cache), []);
      });
    } finally {
      await server[Symbol.asyncDispose]();
      await Deno.remove(home, { recursive: true });
    }
  },
);

e2eTest("SVC_TOKEN_CACHE: keyring keeps sessions in the Secret Service, auto prefers it", {
  commands: ["ssh-keygen", "dbus-run-session", "gnome-keyring-daemon", "secret-tool"],
}, async () => {
  const home = await Deno.makeTempDir({ prefix: "svc-home-" });
  const runtime = join(home, "run");
  await Deno.mkdir(runtime, { mode: 0o700 });
  await makeKey(join(home, "key"));
  await using server = await startServer({
    env: { SVC_AUTHORIZED_KEYS: await Deno.readTextFile(join(home, "key.pub")) },
  });
  const config = join(home, "config.yaml");
  const context = { server: server.url, "key-auth": { "identity-file": join(home, "key") } };
  await Deno.writeTextFile(config, stringify({ "current-context": "t", contexts: { t: context } }));
  // Without its private half the key is of use only through what was kept.
  const script = `set -e
printf pw | gnome-keyring-daemon --unlock --components=secrets >/dev/null 2>&1
for mode in keyring auto; do
  SVC_TOKEN_CACHE=$mode "$SVC" ps >/dev/null
  mv key away
  SVC_TOKEN_CACHE=$mode "$SVC" ps >/dev/null
  mv away key
  test ! -e run/svc
  SVC_TOKEN_CACHE=$mode "$SVC" logout --all
done
mv key away
! SVC_TOKEN_CACHE=keyring "$SVC" ps
`;
  try {
    const own = Object.entries(Deno.env.toObject()).filter(([name]) => !name.startsWith("SVC_"));
    const output = await new Deno.Command("dbus-run-session", {
      args: ["--", "sh", "-c", script],
      cwd: home,
      clearEnv: true,
      env: {
        ...Object.fromEntries(own),
        HOME: home,
        XDG_RUNTIME_DIR: runtime,
        XDG_CACHE_HOME: join(home, "cache"),
        SVC: EXECUTABLE,
        SVC_CONFIG: config,
      },
    }).output();
    const said = new TextDecoder().decode(output.stderr);
    assert.ok(output.success, said);
    assert.equal(said.match(/forgot 1 short-lived credential$/gm)?.length, 2, said);
  } finally {
    await Deno.remove(home, { recursive: true });
  }
});
