/** Credentials of a session on the bare backend: made by the client, delivered into the workload, and gone. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { credentialFolder } from "../../lib/server/credentials/files.ts";
import { eventually } from "../waits.ts";
import { e2eTest, freePort, type Server, startServer } from "./harness.ts";
import { Client } from "./session_client.ts";

const NEEDS = { root: true, commands: ["runc", "conmon", "iptables", "busybox", "nsenter"] };

const DOCKERFILE = `FROM scratch
COPY busybox /bin/busybox
RUN ["/bin/busybox", "--install", "-s", "/bin"]
STOPSIGNAL SIGKILL
CMD ["sh", "-c", "cat /run/c/json >/dev/null && echo serving; exec sleep 1000"]
`;

/** No value of them may be anywhere but in the workload. */
const MARK = `mark-${crypto.randomUUID()}`;

const file = (path: string, more: Record<string, string> = {}) => ({ kind: "file", path, ...more });

/** Of the caller's machine: the server does not dial it. */
const API_PORT = freePort();
const API = `http://127.0.0.1:${API_PORT}/v1`;

const SPEC = {
  name: "web",
  image: "app:v1",
  credentials: {
    sources: [
      {
        ...{ name: "fixed", backend: "static", config: { user: "me", password: `${MARK}-static` } },
        deliver: [
          ...[file("/run/c/json"), file("/run/c/env", { format: "env" })],
          { kind: "env", envVar: "SECRET_WORD", valueKey: "password" },
        ],
      },
      {
        ...{ name: "var", backend: "env", config: { token: "SECRET_OF_TEST" } },
        deliver: [
          file("/run/c/raw", { format: "raw", envVar: "TOKEN_FILE" }),
          { kind: "endpoint" },
        ],
      },
      {
        ...{ name: "counted", backend: "exec", ttl: "2s" },
        config: { command: `echo x >> count; echo "${MARK}-$(wc -l < count)"` },
        deliver: [{ kind: "endpoint" }, file("/run/c/counted", { format: "raw" })],
      },
      {
        ...{ name: "aws", backend: "file", config: { path: "aws.json", format: "aws" } },
        deliver: [
          file("/run/c/aws", { format: "aws-credentials", envVar: "AWS_SHARED_CREDENTIALS_FILE" }),
          { kind: "endpoint", provider: "aws-imds", wellKnown: "169.254.169.254" },
        ],
      },
      { name: "hub", backend: "gh", deliver: [file("/run/c/hub", { format: "raw" })] },
      {
        ...{ name: "api", backend: "static", config: { token: `${MARK}-api` } },
        deliver: [{ kind: "endpoint", upstream: API, valueKey: "token", envVar: "API_URL" }],
      },
    ],
  },
};

async function inside(server: Server, script: string, name = "web"): Promise<string> {
  const { code, stdout, stderr } = await server.svc(["exec", name, "sh", "-c", script]);
  assert.equal(code, 0, stderr);
  return stdout;
}

/** What is mounted for this server's credentials: others of this host have some too. */
async function mounted({ dataDir }: Server): Promise<string[]> {
  const folder = credentialFolder({ runDir: "/run/svc", dataDir });
  const table = await Deno.readTextFile("/proc/self/mountinfo");
  return table.split("\n").filter((line) => line.includes(folder));
}

const unmounted = (server: Server) =>
  eventually("nothing is mounted", async () => (await mounted(server)).length === 0);

/** Files below the folder that have the mark in them; what is mounted there is left out. */
async function marked(folder: string): Promise<string[]> {
  const { stdout } = await new Deno.Command("grep", {
    args: ["-rlaF", "--devices=skip", "--", MARK, folder],
  }).output();
  return new TextDecoder().decode(stdout).split("\n").filter((line) => line !== "");
}

async function build(server: Server, folder: string): Promise<void> {
  await Deno.writeTextFile(join(folder, "Dockerfile"), DOCKERFILE);
  await Deno.copyFile("/bin/busybox", join(folder, "busybox"));
  const { code, stderr } = await server.svc(["build", "-t", "app:v1", folder]);
  assert.equal(code, 0, stderr);
}

/** The spec, and what its sources read, in a folder of its own. */
async function write(folder: string): Promise<string> {
  const keys = { Version: 1, AccessKeyId: "AKTEST", SecretAccessKey: `${MARK}-aws` };
  await Deno.writeTextFile(join(folder, "aws.json"), JSON.stringify(keys));
  // In the place of the code host's tool.
  const gh = `#!/bin/sh\n[ "$1 $2" = "auth token" ] && echo ${MARK}-gh\n`;
  await Deno.writeTextFile(join(folder, "gh-stand-in"), gh, { mode: 0o755 });
  const path = join(folder, "web.json");
  await Deno.writeTextFile(path, JSON.stringify(SPEC));
  return path;
}

/** Runs a program of this machine in the workload's network, with what the workload's environment says of AWS. */
async function sdk(server: Server, keep: RegExp): Promise<Record<string, string>> {
  const record = join(server.dataDir, "bare/deployments/web.json");
  const { pid } = JSON.parse(await Deno.readTextFile(record)).instances[0].process;
  const env = Object.fromEntries(
    (await inside(server, "env")).split("\n").map((line) => line.split(/=(.*)/s, 2))
      .filter(([name]) => keep.test(name ?? "")),
  );
  const program = join(import.meta.dirname!, "../peers/aws_keys.ts");
  const { code, stdout, stderr } = await new Deno.Command("nsenter", {
    args: [`--net=/proc/${pid}/ns/net`, Deno.execPath(), "run", "-A", "--cached-only", program],
    clearEnv: true,
    env: { ...env, HOME: "/nonexistent", PATH: Deno.env.get("PATH")!, ...denoCache() },
  }).output();
  assert.equal(code, 0, new TextDecoder().decode(stderr));
  return JSON.parse(new TextDecoder().decode(stdout));
}

const denoCache = (): Record<string, string> => ({
  DENO_DIR: Deno.env.get("DENO_DIR") ?? join(Deno.env.get("HOME")!, ".cache/deno"),
});

e2eTest(
  "credentials: files, endpoints and the AWS SDK on bare; nothing is left",
  NEEDS,
  async (t) => {
    await using server = await startServer({ env: { SVC_SESSION_GRACE: "10m" } });
    const folder = await Deno.makeTempDir({ prefix: "svc-e2e-credentials-" });
    try {
      await build(server, folder);
      const spec = await write(folder);

      await t.step("what the server must not know, and what it cannot deliver", async () => {
        const detached = await server.svc(["deploy", "-f", spec]);
        assert.equal(detached.code, 2);
        assert.match(detached.stderr, /nobody would stay to make them.*\n.*--session/);
        const put = async (sources: unknown[]) => {
          const answer = await fetch(`${server.url}/.svc/v1/deployments/web`, {
            method: "PUT",
            headers: { "content-type": "application/json" },
            body: JSON.stringify({ name: "web", image: "app:v1", credentials: { sources } }),
          });
          return await answer.text();
        };
        const told = await put(SPEC.credentials.sources);
        assert.match(told, /sources\[0\] says how it is made, which is for the caller alone/);
        assert.ok(!told.includes(MARK));
        assert.match(await put([{ name: "c", deliver: [file("/c")] }]), /made at the caller/);
      });

      await using client = new Client(server, ["-f", spec], {
        SECRET_OF_TEST: `${MARK}-env`,
        SVC_GH_BIN: join(folder, "gh-stand-in"),
      }, folder);
      await client.wrote(/^serving$/m);

      await t.step("files, there before the process", async () => {
        assert.deepEqual(JSON.parse(await inside(server, "cat /run/c/json")), {
          values: { user: "me", password: `${MARK}-static` },
        });
        assert.equal(
          await inside(server, ". /run/c/env; echo $user $password"),
          `me ${MARK}-static\n`,
        );
        assert.equal(await inside(server, "cat $TOKEN_FILE"), `${MARK}-env`);
        assert.match(
          await inside(server, "cat $AWS_SHARED_CREDENTIALS_FILE"),
          new RegExp(
            `^\\[default\\]\naws_access_key_id = AKTEST\naws_secret_access_key = ${MARK}-aws\n$`,
          ),
        );
        assert.equal(await inside(server, "cat /run/c/hub"), `${MARK}-gh`);
        assert.equal(await inside(server, "stat -c %a /run/c/json"), "444\n");
        assert.match(await inside(server, "echo x 2>&1 > /run/c/json || true"), /Read-only/);
        // Where the last step looks for what is left.
        assert.ok((await mounted(server)).length > 0);
        assert.ok((await marked("/run/svc")).length > 0);
      });

      await t.step("a variable, of the process alone, at each of its starts", async () => {
        const environment = () => inside(server, "tr '\\0' '\\n' < /proc/1/environ");
        const line = `SECRET_WORD=${MARK}-static\n`;
        assert.ok((await environment()).includes(line));
        assert.equal((await server.svc(["restart", "web"])).code, 0);
        assert.ok((await environment()).includes(line));
        assert.ok(!(await inside(server, "env")).includes(`${MARK}-static`));
        assert.deepEqual(await marked(server.dataDir), []);
      });

      await t.step("endpoints, of the workload alone", async () => {
        const get = (url: string) => inside(server, `wget -qO- ${url}`);
        assert.deepEqual(JSON.parse(await get("$SVC_CREDENTIAL_VAR_URL")), {
          values: { token: `${MARK}-env` },
        });
        assert.equal(await get("$SVC_CREDENTIALS_URL/var"), await get("$SVC_CREDENTIAL_VAR_URL"));
        const port = (await inside(server, "echo $SVC_CREDENTIALS_URL")).match(/:(\d+)\//)![1];
        const { ip } =
          (await (await fetch(`${server.url}/.svc/v1/deployments/web`)).json()).instances[0];
        for (const host of ["127.0.0.1", ip]) {
          await assert.rejects(fetch(`http://${host}:${port}/credentials/var`), `${host} answers`);
        }
      });

      await t.step(
        "an upstream: the caller adds the credential, which the workload never has",
        async () => {
          const asked: string[] = [];
          await using _api = Deno.serve(
            { hostname: "127.0.0.1", port: API_PORT, onListen() {} },
            ({ url, headers }) => {
              asked.push(`${new URL(url).pathname} ${headers.get("authorization")}`);
              return new Response("of the api");
            },
          );
          assert.equal(await inside(server, "wget -qO- $API_URL/user"), "of the api");
          assert.deepEqual(asked, [`/v1/user Bearer ${MARK}-api`]);
          assert.ok(!(await inside(server, "env")).includes(`${MARK}-api`));
          const wrong = "wget -qO- ${API_URL%api}var/user || echo refused";
          assert.match(await inside(server, wrong), /refused/);
        },
      );

      await t.step("renewed: a file in place, the endpoint at once", async () => {
        const count = async () =>
          Number((await inside(server, "cat /run/c/counted")).split("-").at(-1));
        const first = await count();
        await eventually("the file is renewed", async () => await count() > first);
      });

      await t.step("the AWS SDK, as it is: ECS, the metadata service", async () => {
        const expected = { accessKeyId: "AKTEST", secretAccessKey: `${MARK}-aws` };
        // By itself it waits for an answer for a second: little on a machine that does other things too.
        for (const keep of [/^AWS_CONTAINER_/, /^AWS_EC2_/, /^NOTHING$/]) {
          await eventually(`the keys by ${keep}`, async () => {
            assert.deepEqual(await sdk(server, keep), expected);
            return true;
          });
        }
      });

      await t.step("after a restart of the server everything goes on", async () => {
        await server.restart();
        await client.wrote(/the session is resumed/);
        await eventually(
          "the endpoint is back",
          async () => (await inside(server, "wget -qO- $SVC_CREDENTIAL_VAR_URL")).includes(MARK),
        );
        const count = () => inside(server, "cat /run/c/counted");
        const before = await count();
        await eventually("the file is renewed again", async () => await count() !== before);
      });

      await t.step("nothing of them in records, logs, images and answers", async () => {
        assert.deepEqual(await marked(server.dataDir), []);
        assert.ok(!server.log().includes(MARK), "the log");
        for (const path of ["deployments", "deployments/web", "deployments/web/spec", "activity"]) {
          const text = await (await fetch(`${server.url}/.svc/v1/${path}`)).text();
          assert.ok(!text.includes(MARK), path);
        }
        assert.ok(!client.all.includes(MARK), "the client's own output");
      });

      await t.step("with the session they end", async () => {
        client.kill("SIGINT");
        assert.equal((await client.ended).code, 0, client.all);
        await unmounted(server);
        await eventually(
          "nothing has them",
          async () => (await marked("/run/svc")).length === 0,
        );
      });

      await t.step("a source that fails fails the deploy, in its own words", async () => {
        const { code, stderr } = await server.svc([
          ...["deploy", "--session", "app:v1", "--name", "bad"],
          ...["--credential", "name=c,backend=exec,command=exit 7,file=/run/c/json"],
        ]);
        assert.equal(code, 1);
        assert.match(stderr, /Cannot get credential c of the caller: its program ended with 7/);
        await unmounted(server);
      });
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
);
