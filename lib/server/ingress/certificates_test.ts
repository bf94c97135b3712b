/** Deployments that bring certificates along: what is refused, and where their keys never are. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { hasOpenssl, makeAuthority } from "../../../test/peers/pki.ts";
import { CERTIFIED_TYPE, type HostCertificate } from "../../api/ingress_certificates.ts";
import { SESSION_PATH, type SessionEvent } from "../../api/session.ts";
import { createLogger } from "../../base/log.ts";
import { attach } from "../../client/attached/attach.ts";
import type { DeployBackend } from "../../deploy/backend.ts";
import type { Resume } from "../../wire/attached/hello.ts";
import { LineReader, writeLine } from "../../wire/lines.ts";
import { FakeDeployments, startSessionServer } from "../sessions/testing.ts";
import { startTestServer, STATUS } from "../testing.ts";

const ignore = !hasOpenssl();
const API = "/.svc/v1/deployments/web";

interface Pems {
  app: { certificate: string; key: string };
  other: { certificate: string; key: string };
  /** A word of each key, and all of its lines. */
  secrets: string[];
}

async function withPems(work: (pems: Pems, folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    const ca = await makeAuthority(folder);
    const pem = async (name: string, ...names: string[]) => {
      const { cert, key } = await ca.issue(name, { names: names.map((name) => `DNS:${name}`) });
      const [certificate, text] = await Promise.all([cert, key].map((it) => Deno.readTextFile(it)));
      return { certificate, key: text };
    };
    const app = await pem("app", "app.example.com", "*.example.com");
    const other = await pem("other", "other.example.org");
    const secrets = [app, other].flatMap(({ key }) =>
      key.split("\n").filter((line) => line.length > 20 && !line.startsWith("-----"))
    );
    assert.ok(secrets.length >= 4);
    await work({ app, other, secrets }, folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const SPEC = {
  name: "web",
  image: "app:v1",
  ports: ["80"],
  ingress: { hosts: ["App.example.com", "*.example.com", "far.example"] },
};

/** A server whose backend has the ability, or not; everything that it logs and records. */
async function start(able: boolean) {
  const said: string[] = [];
  const seen: Parameters<DeployBackend["apply"]>[] = [];
  const server = await startTestServer({
    log: createLogger({ level: "debug", format: "json", write: (line) => void said.push(line) }),
    note: (answered) => void said.push(Deno.inspect(answered, { depth: 9 })),
    backend: {
      caps: able ? { ingressCertificates: true } : {},
      apply: (spec, attachments) => {
        seen.push([spec, attachments]);
        return Promise.resolve({ action: "created", deployment: STATUS });
      },
      status: () => Promise.resolve(STATUS),
    },
  });
  return {
    ...{ said, seen, base: server.base },
    /** Status and body. */
    async put(body: unknown, type = CERTIFIED_TYPE): Promise<[number, string]> {
      const response = await fetch(server.base + API, {
        method: "PUT",
        headers: { "content-type": type },
        body: typeof body === "string" ? body : JSON.stringify(body),
      });
      const text = await response.text();
      said.push(text);
      return [response.status, text];
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

function silentOn(secrets: readonly string[], said: readonly string[]): void {
  const all = said.join("\n");
  for (const secret of secrets) assert.ok(!all.includes(secret.slice(4, 20)), secret);
  assert.ok(!all.includes("PRIVATE KEY"));
}

Deno.test({
  name: "certificates of a deployment reach a backend that takes them, and no other",
  ignore,
}, async () => {
  await withPems(async ({ app, secrets }) => {
    const certificates = [{ hosts: ["app.example.com", "*.example.com"], ...app }];
    {
      await using server = await start(true);
      const info = await (await fetch(`${server.base}/.svc/v1/info`)).json();
      assert.deepEqual(info.deploy.caps, ["ingressCertificates"]);
      const [status] = await server.put({ spec: SPEC, certificates }, `${CERTIFIED_TYPE}; a=b`);
      assert.equal(status, 201);
      const [[spec, attachments]] = server.seen;
      assert.equal(spec.name, "web");
      assert.deepEqual(attachments?.certificates, certificates);
      await server.put(SPEC, "application/json");
      assert.ok(!("certificates" in server.seen[1][1]!));
      server.said.push(await (await fetch(server.base + API)).text());
      silentOn(secrets, server.said);
    }
    await using server = await start(false);
    const [status, text] = await server.put({ spec: SPEC, certificates });
    assert.equal(status, 501);
    assert.match(text, /Cannot deploy with certificates: the ingress of the fake backend/);
    assert.deepEqual(server.seen, []);
    silentOn(secrets, server.said);
  });
});

Deno.test({
  name:
    "certificates of a deployment that are no good are refused without a word of what is in them",
  ignore,
}, async () => {
  await withPems(async ({ app, other, secrets }) => {
    await using server = await start(true);
    const one = { hosts: ["app.example.com"], ...app };
    const cases: [unknown, RegExp][] = [
      [JSON.stringify({ spec: SPEC, certificates: [one] }).slice(0, -9), /the body is not JSON/],
      [app.key, /the body is not JSON/],
      [[], /the body: expected an object/],
      [{ spec: SPEC, certificates: [one], [app.key]: 1 }, /a field that is none of spec, cert/],
      [{ spec: SPEC }, /certificates: expected a list/],
      [{ spec: SPEC, certificates: [] }, /certificates: expected a list/],
      [{ spec: SPEC, certificates: Array(257).fill(one) }, /expected a list of 1 to 256/],
      [{ spec: SPEC, certificates: [app.key] }, /certificates\[0\]: expected an object/],
      [{ spec: SPEC, certificates: [{ ...one, more: 1 }] }, /certificates\[0\]: a field/],
      [{ spec: SPEC, certificates: [{ ...one, hosts: [] }] }, /\[0\]\.hosts: expected hosts/],
      [
        { spec: SPEC, certificates: [{ ...one, hosts: [app.key] }] },
        /\[0\]\.hosts: expected hosts/,
      ],
      [{ spec: SPEC, certificates: [{ ...one, hosts: ["x.y"] }] }, /\[0\]\.hosts: expected hosts/],
      [{ spec: SPEC, certificates: [{ ...one, key: 1 }] }, /\[0\]\.key: expected PEM/],
      [{ spec: SPEC, certificates: [{ ...one, key: other.key }] }, /\[0\]\.key: .*does not belong/],
      [{ spec: SPEC, certificates: [{ ...one, key: one.certificate }] }, /\.key: .*no private key/],
      [
        { spec: SPEC, certificates: [{ ...one, certificate: one.key }] },
        /\.certificate: .*no cert/,
      ],
      [{ spec: SPEC, certificates: [one, one] }, /app\.example\.com has two/],
      [
        { spec: SPEC, certificates: [{ ...one, hosts: ["far.example"] }] },
        /far\.example is none of the certificate's names: app\.example\.com, \*\.example\.com/,
      ],
      [{ spec: { ...SPEC, imgae: 1 }, certificates: [one] }, /imgae/],
      [{ spec: { ...SPEC, ingress: undefined }, certificates: [one] }, /\.hosts: expected hosts/],
    ];
    for (const [body, why] of cases) {
      const [status, text] = await server.put(body);
      assert.equal(status, 400, text);
      assert.match(JSON.parse(text).detail, why);
    }
    assert.deepEqual(server.seen, []);
    silentOn(secrets, server.said);
  });
});

/** A caller of a session, by hand. */
async function session(
  server: Awaited<ReturnType<typeof startSessionServer>>,
  request: unknown,
  resume?: Resume,
) {
  const attached = await attach(server.client, SESSION_PATH, { attempt: "test", resume });
  const stream = attached.open("deploy");
  const lines = new LineReader(stream);
  await writeLine(stream, request);
  return {
    /** Events up to the first of the type, or an error. */
    async until(type: string): Promise<SessionEvent> {
      for (;;) {
        const event = await lines.line<SessionEvent>();
        assert.ok(event, `it ended before ${type}`);
        if (event.type === type || event.type === "error") return event;
      }
    },
    [Symbol.dispose]: () => attached[Symbol.dispose](),
  };
}

/** Deployments in memory, of a backend that takes certificates. */
function certifying(seen: unknown[], onApply?: () => Promise<void>): FakeDeployments {
  const deployments = new FakeDeployments();
  const { apply } = deployments.backend;
  Object.assign(deployments.backend, {
    caps: { ingressCertificates: true },
    apply: async (...[spec, attachments, options]: Parameters<DeployBackend["apply"]>) => {
      seen.push(attachments?.certificates);
      await onApply?.();
      return await apply!(spec, attachments, options);
    },
  });
  return deployments;
}

Deno.test({
  name: "certificates of a session are kept until they are applied, and on no disk",
  ignore,
}, async () => {
  await withPems(async ({ app, secrets }, folder) => {
    const certificates: HostCertificate[] = [{ hosts: ["app.example.com"], ...app }];
    const open = { type: "open", spec: SPEC, certificates };
    const dataDir = join(folder, "data");
    const seen: unknown[] = [];
    let record = "";
    {
      const deployments = certifying(seen, async () => {
        record = await Deno.readTextFile(join(dataDir, "sessions", "web.json"));
      });
      await using server = await startSessionServer(dataDir, deployments);
      using caller = await session(server, open);
      const opened = await caller.until("session");
      assert.equal(opened.type, "session");
      assert.equal((await caller.until("result")).type, "result");
      assert.deepEqual(seen, [certificates]);
      silentOn(secrets, [record, await Deno.readTextFile(join(dataDir, "sessions", "web.json"))]);
      using bad = await session(server, {
        ...open,
        spec: { ...SPEC, name: "bad" },
        certificates: [{ ...certificates[0], key: "rubbish" }],
      });
      const refused = await bad.until("session");
      assert.ok(refused.type === "error" && /no private key/.test(refused.error.detail));
    }
    // As it was in the middle of the apply: the keys are gone, which is said rather than left out.
    const { sha256 } = await import("../../base/hash.ts");
    const kept = { ...JSON.parse(record), token: await sha256("secret") };
    await Deno.writeTextFile(join(dataDir, "sessions", "web.json"), JSON.stringify(kept));
    await using server = await startSessionServer(dataDir, certifying(seen));
    const resume = { name: "web", token: "secret" };
    using caller = await session(server, { type: "resume" }, resume);
    const event = await caller.until("result");
    assert.ok(event.type === "error" && event.error.code === "unavailable", event.type);
    assert.match(event.error.detail, /Cannot deploy web: the server was restarted before its cert/);
    assert.equal(seen.length, 1);
  });
});

Deno.test({
  name: "certificates of a session are refused by a backend that does not take them",
  ignore,
}, async () => {
  await withPems(async ({ app }, folder) => {
    await using server = await startSessionServer(join(folder, "data"));
    const certificates = [{ hosts: ["app.example.com"], ...app }];
    const open = { type: "open", spec: SPEC, certificates };
    using caller = await session(server, open);
    const event = await caller.until("session");
    assert.ok(event.type === "error" && event.error.code === "unsupported");
    assert.deepEqual(server.deployments.applied, []);
  });
});
