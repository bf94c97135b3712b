/** The rows of SPEC.md's table SSHTunnel, through OpenSSH's server, agent and client. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { stringify } from "yaml";
import { makeAuthority } from "../peers/pki.ts";
import { makeKey, type Sshd, startAgent, startSshd } from "../peers/sshd.ts";
import { e2eTest, freePort, type RunOutput, svc } from "./harness.ts";
import { upgradeAttached } from "../../lib/wire/attached/testing.ts";

const NEEDS = { commands: ["sshd", "ssh", "ssh-keygen", "ssh-agent", "openssl"], root: true };

const UTF8 = new TextEncoder();

interface Fixture extends AsyncDisposable {
  sshd: Sshd;
  home: string;
  /** `svc ARGS` through a tunnel with these fields, in a context with more of them. */
  run(
    args: string[],
    tunnel: Record<string, unknown>,
    more?: Record<string, unknown>,
    env?: Record<string, string>,
  ): Promise<RunOutput>;
  /** `svc info` in the same way. */
  info(
    tunnel: Record<string, unknown>,
    more?: Record<string, unknown>,
    env?: Record<string, string>,
  ): Promise<RunOutput>;
  remote: string;
  /** Fields of a tunnel that works. */
  tunnel(): Promise<Record<string, unknown>>;
}

/** sshd, and behind it a server that answers `info`. */
async function fixture(
  serverOptions: { cert?: string; key?: string } = {},
  answer: (request: Request) => Response | Promise<Response> = () =>
    Response.json({ version: "through the tunnel", identity: {} }),
): Promise<Fixture> {
  const sshd = await startSshd();
  const home = await Deno.makeTempDir({ prefix: "svc-home-" });
  await Deno.mkdir(join(home, ".ssh"), { mode: 0o700 });
  const api = Deno.serve(
    {
      hostname: "127.0.0.1",
      port: 0,
      onListen() {},
      ...serverOptions as { cert: string; key: string },
    },
    answer,
  );
  const remote = `127.0.0.1:${api.addr.port}`;
  let count = 0;
  const run: Fixture["run"] = async (args, tunnel, more = {}, env = {}) => {
    const config = join(home, `config-${count++}.yaml`);
    const context = { "ssh-tunnel": { "remote-addr": remote, ...tunnel }, ...more };
    await Deno.writeTextFile(
      config,
      stringify({ "current-context": "t", contexts: { t: context } }),
    );
    return await svc(args, {
      env: { HOME: home, SVC_CONFIG: config, SVC_SERVER: "", SSH_AUTH_SOCK: "", ...env },
    });
  };
  return {
    sshd,
    home,
    remote,
    run,
    info: (...how) => run(["info"], ...how),
    async tunnel() {
      const known = join(home, "known");
      await Deno.writeTextFile(known, await sshd.knownHosts());
      const addr = `127.0.0.1:${sshd.port}`;
      return { addr, "identity-file": sshd.user, user: "root", "known-hosts": known };
    },
    async [Symbol.asyncDispose]() {
      await api.shutdown();
      await sshd[Symbol.asyncDispose]();
      await Deno.remove(home, { recursive: true });
    },
  };
}

function good({ code, stdout, stderr }: RunOutput): void {
  assert.equal(code, 0, stderr);
  assert.match(stdout, /through the tunnel/);
}

function bad({ code, stderr }: RunOutput, said: RegExp): void {
  assert.equal(code, 1, stderr);
  assert.match(stderr, said);
}

/**
 * A folder with an `ssh` that reads the configuration in this home folder: OpenSSH itself finds the folder
 * by the user's entry, and only -F tells it another one.
 */
async function sshWithConfig(home: string): Promise<string> {
  const folder = join(home, "bin");
  await Deno.mkdir(folder);
  await Deno.writeTextFile(
    join(folder, "ssh"),
    `#!/bin/sh\ncase " $* " in *" -F "*) exec /usr/bin/ssh "$@" ;; ` +
      `*) exec /usr/bin/ssh -F ${home}/.ssh/config "$@" ;; esac\n`,
    { mode: 0o755 },
  );
  return folder;
}

e2eTest(
  "SSHTunnel rows: addr, user, remote-addr, identity-file, known-hosts, no-agent",
  NEEDS,
  async () => {
    await using at = await fixture();
    const { sshd, home } = at;
    const addr = `127.0.0.1:${sshd.port}`;
    const known = join(home, "known");
    const nobody = freePort();
    await Deno.writeTextFile(known, await sshd.knownHosts());
    const base = { addr, "known-hosts": known, "identity-file": sshd.user, user: "root" };
    good(await at.info(base));
    bad(
      await at.info({ ...base, user: "nobody-of-that-name" }),
      /Cannot log in to nobody-of-that-name@127\.0\.0\.1:\d+: it accepts none of the keys/,
    );
    bad(
      await at.info({ ...base, "remote-addr": `127.0.0.1:${nobody}` }),
      /Cannot reach 127\.0\.0\.1:\d+ through/,
    );
    bad(
      await at.info({ ...base, "identity-file": join(home, "none") }),
      /Cannot log in .*Cannot read identity file .*no such file/,
    );
    bad(
      await at.info({ ...base, addr: `127.0.0.1:${nobody}` }),
      /Cannot connect to root@127\.0\.0\.1:\d+/,
    );
    // An explicit server makes the block inert.
    bad(
      await at.info(base, { server: `http://127.0.0.1:${nobody}` }),
      /Cannot reach http:\/\/127\.0\.0\.1:\d+: /,
    );

    await using agent = await startAgent();
    await agent.add(sshd.user);
    const withAgent = { SSH_AUTH_SOCK: agent.socket };
    const { "identity-file": _, ...noFile } = base;
    good(await at.info(noFile, {}, withAgent));
    bad(await at.info({ ...noFile, "no-agent": true }, {}, withAgent), /Cannot log in/);
  },
);

e2eTest(
  "SSHTunnel rows: host-key, insecure-host-key: keys that are new, changed, revoked, pinned, not looked at",
  NEEDS,
  async () => {
    await using at = await fixture();
    const { sshd, home } = at;
    const base = { addr: `127.0.0.1:${sshd.port}`, "identity-file": sshd.user, user: "root" };
    for (const binary of [false, true]) {
      const how = { ...base, "use-ssh-binary": binary };
      const known = join(home, "known");
      await Deno.writeTextFile(known, "");
      const withFile = { ...how, "known-hosts": known };
      bad(await at.info(withFile), /Cannot trust .*: .*not in known_hosts/);
      await Deno.writeTextFile(known, await sshd.knownHosts());
      good(await at.info(withFile));
      await Deno.writeTextFile(
        known,
        `@revoked ${await sshd.knownHosts()}${await sshd.knownHosts()}`,
      );
      bad(await at.info(withFile), /Cannot trust .*: its host key is revoked in/);
      const pinned = (await Deno.readTextFile(`${sshd.host}.pub`)).trim();
      good(await at.info({ ...how, "host-key": pinned }));
      await Deno.writeTextFile(known, await sshd.knownHosts());
      await sshd.rekey();
      await sshd.restart();
      bad(await at.info(withFile), /Cannot trust .*: its host key has changed from the one in/);
      bad(await at.info({ ...how, "host-key": pinned }), /Cannot trust .*: its host key/);
      good(await at.info({ ...withFile, "insecure-host-key": true }));
    }
  },
);

e2eTest(
  "SSHTunnel rows: an alias of ssh_config, no-ssh-config, a jump host, use-ssh-binary",
  NEEDS,
  async () => {
    await using at = await fixture();
    await using jump = await startSshd();
    const { sshd, home } = at;
    const known = join(home, "known");
    await Deno.writeTextFile(known, await sshd.knownHosts() + await jump.knownHosts());
    const common = `User root\n  UserKnownHostsFile ${known}\n`;
    const ssh = await sshWithConfig(home);
    await Deno.writeTextFile(
      join(home, ".ssh", "config"),
      `Host lab\n  HostName 127.0.0.1\n  Port ${sshd.port}\n  IdentityFile ${sshd.user}\n  ${common}` +
        `Host gate\n  HostName 127.0.0.1\n  Port ${jump.port}\n  IdentityFile ${jump.user}\n  ${common}` +
        `Host far\n  HostName 127.0.0.1\n  Port ${sshd.port}\n  IdentityFile ${sshd.user}\n  ProxyCommand ${ssh}/ssh -W %h:%p gate\n  ${common}` +
        `Host hop\n  HostName 127.0.0.1\n  Port ${sshd.port}\n  IdentityFile ${sshd.user}\n  ProxyJump gate\n  ${common}`,
    );
    const env = { PATH: `${ssh}:${Deno.env.get("PATH")}` };
    good(await at.info({ addr: "lab" }, {}, env));
    good(await at.info({ addr: "far" }, {}, env));
    good(await at.info({ addr: "hop" }, {}, env));
    good(await at.info({ addr: "lab", "use-ssh-binary": true }, {}, env));
    bad(
      await at.info({ addr: "lab", "no-ssh-config": true }, {}, env),
      /Cannot connect to .*lab:22/,
    );
  },
);

e2eTest(
  "SSHTunnel row remote-tls, with tls.server-name; an encrypted key by SSH_ASKPASS",
  NEEDS,
  async () => {
    const folder = await Deno.makeTempDir();
    try {
      const authority = await makeAuthority(folder);
      const leaf = await authority.issue("svc", { names: ["DNS:svc.example"] });
      await using at = await fixture({
        cert: await Deno.readTextFile(leaf.cert),
        key: await Deno.readTextFile(leaf.key),
      });
      const { sshd, home } = at;
      const base = await at.tunnel();
      const tls = { "ca-cert": authority.cert, "server-name": "svc.example" };
      good(await at.info({ ...base, "remote-tls": true }, { tls }));
      bad(await at.info(base), /Cannot reach http:\/\/127\.0\.0\.1:\d+: /);
      bad(
        await at.info({ ...base, "remote-tls": true }, { tls: { "ca-cert": authority.cert } }),
        /127\.0\.0\.1/,
      );
      const locked = join(home, "locked");
      await makeKey(locked, "ed25519", "open sesame");
      await Deno.writeTextFile(
        join(sshd.folder, "authorized_keys"),
        await Deno.readTextFile(`${locked}.pub`),
      );
      const askpass = join(home, "askpass");
      await Deno.writeTextFile(askpass, "#!/bin/sh\necho 'open sesame'\n", { mode: 0o755 });
      const withLocked = { ...base, "remote-tls": true, "identity-file": locked };
      good(await at.info(withLocked, { tls }, { SSH_ASKPASS: askpass }));
      bad(
        await at.info(withLocked, { tls }),
        /Cannot log in .*Cannot unlock .*locked: it is encrypted/,
      );
      await Deno.writeTextFile(askpass, "#!/bin/sh\necho wrong\n");
      bad(
        await at.info(withLocked, { tls }, { SSH_ASKPASS: askpass }),
        /Cannot unlock .*wrong passphrase/,
      );
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
);

e2eTest(
  "a tunnel that drops in the middle of a build ends it with what to do, in time",
  NEEDS,
  async () => {
    for (const binary of [false, true]) {
      const asked = Promise.withResolvers<void>();
      const answer = (request: Request): Response => {
        if (!new URL(request.url).pathname.endsWith("/build/attach")) {
          return Response.json({ version: "1", identity: {} });
        }
        // The build was asked for, and never gets on.
        return upgradeAttached(request, { takes: { build: () => asked.resolve() } }).response;
      };
      await using at = await fixture({}, answer);
      const context = join(at.home, "context");
      await Deno.mkdir(context);
      await Deno.writeTextFile(join(context, "Dockerfile"), "FROM scratch\n");
      const running = at.run(["build", "-t", "x:1", context], {
        ...await at.tunnel(),
        "use-ssh-binary": binary,
      });
      await asked.promise;
      await at.sshd.drop();
      bad(await running, /Cannot finish the build: the connection to .* was lost\n {2}build again/);
    }
  },
);

e2eTest(
  "a tunnel that drops in mid-command is opened again, and a followed log goes on",
  NEEDS,
  async () => {
    const frame = (n: number) => ({
      time: new Date(1_800_000_000_000 + n * 1000).toISOString(),
      instance: "web-0",
      stream: "stdout",
      line: `line ${n}`,
    });
    for (const binary of [false, true]) {
      const asked: string[] = [];
      const first = Promise.withResolvers<void>();
      const answer = (request: Request): Response => {
        const { pathname, search } = new URL(request.url);
        if (!pathname.endsWith("/logs")) return Response.json({ name: "web", instances: [] });
        asked.push(search);
        const again = asked.length > 1;
        const lines = again ? [frame(1), frame(2)] : [frame(1)];
        const body = new ReadableStream<Uint8Array>({
          start(controller) {
            const text = lines.map((line) => JSON.stringify(line) + "\n").join("");
            controller.enqueue(UTF8.encode(text));
            // The first answer stays open: the tunnel has to break.
            if (again) controller.close();
            else first.resolve();
          },
        });
        return new Response(body, { headers: { "content-type": "application/x-ndjson" } });
      };
      await using at = await fixture({}, answer);
      const running = at.run(["logs", "-f", "web"], {
        ...await at.tunnel(),
        "use-ssh-binary": binary,
      });
      await first.promise;
      await at.sshd.drop();
      const { code, stdout, stderr } = await running;
      assert.equal(code, 0, stderr);
      assert.ok(asked.length > 1);
      assert.match(stdout, /line 2\n$/);
    }
  },
);

e2eTest("a tunnel that drops in the first call of a command is opened again", NEEDS, async () => {
  for (const begun of [false, true]) {
    let asked = 0;
    const first = Promise.withResolvers<void>();
    const answer = ({ signal }: Request): Response | Promise<Response> => {
      if (asked++ > 0) return Response.json([]);
      first.resolve();
      // Neither the head nor the body of the first answer comes to its end: the tunnel has to break.
      if (begun) {
        const start = (body: ReadableStreamDefaultController) => body.enqueue(UTF8.encode("["));
        return new Response(new ReadableStream({ start }));
      }
      return new Promise((resolve) =>
        signal.addEventListener("abort", () => resolve(new Response()))
      );
    };
    await using at = await fixture({}, answer);
    const running = at.run(["ps"], await at.tunnel());
    await first.promise;
    await at.sshd.drop();
    const { code, stderr } = await running;
    assert.equal(code, 0, stderr);
    assert.equal(asked, 2);
  }
});

e2eTest("svc setup: a tunnel by questions on a pipe, saved where it works", NEEDS, async () => {
  await using at = await fixture();
  const { sshd, home, remote } = at;
  const config = join(home, "made.yaml");
  const known = join(home, "known");
  await Deno.writeTextFile(known, "");
  await Deno.writeTextFile(
    join(home, ".ssh", "config"),
    `Host *\n  UserKnownHostsFile ${known}\n  StrictHostKeyChecking ask\n`,
  );
  const env = {
    ...{ HOME: home, SVC_CONFIG: config, SVC_SERVER: "", SSH_AUTH_SOCK: "" },
    PATH: `${await sshWithConfig(home)}:${Deno.env.get("PATH")}`,
  };
  const addr = `127.0.0.1:${sshd.port}`;
  const answers = ["ssh", addr, remote, "root", sshd.user, "no", "none", "lab"];
  const setup = (...more: string[]) =>
    svc(["setup"], { env, stdin: [...answers, ...more].map((line) => `${line}\n`).join("") });
  const unknown = await setup("save");
  assert.equal(unknown.code, 1, unknown.stderr);
  assert.match(
    unknown.stderr,
    /FAILED {3}connection: Cannot trust .*: it is not in known_hosts .*\n {9}compare the fingerprint/,
  );
  const command = unknown.stdout.trim();
  assert.equal(
    command,
    `svc config set-context lab --ssh-addr ${addr} --ssh-user root --ssh-remote-addr ${remote} ` +
      `--ssh-identity-file ${sshd.user} --current`,
  );
  await Deno.writeTextFile(known, await sshd.knownHosts());
  const works = await setup();
  assert.equal(works.code, 0, works.stderr);
  assert.match(works.stderr, /ok {7}connection: it answers in/);
  good(await svc(["info"], { env }));
});
