/** The certificates of a native deploy (SPEC.md "IngressCertificate", "Authentication" 6, "Errors"). */
import assert from "node:assert/strict";
import { hasOpenssl, makeAuthority } from "../../../test/peers/pki.ts";
import { validateDeploySpec } from "../../api/deploy_spec_parse.ts";
import type { ServerInfo } from "../../api/info.ts";
import { type ErrorCode, SvcError } from "../../base/errors.ts";
import type { Transport } from "../resolve.ts";
import type { CertificateSettings } from "./certificates.ts";
import { keepsSecrets, managedCertificates } from "./managed_certificates.ts";

const ignore = !hasOpenssl();

const ABLE = ["exec", "ingressCertificates"];
const direct: Transport = { kind: "direct" };
const HTTPS = { server: "https://svc.example", transport: direct };

function infoOf(caps: string[], domain?: string): () => Promise<ServerInfo> {
  const info = { deploy: { caps }, ingress: { enabled: true, domain } };
  return () => Promise.resolve(info as unknown as ServerInfo);
}

const specOf = (ingress: unknown) => validateDeploySpec({ name: "web", image: "app:v1", ingress });

interface Case {
  rules: CertificateSettings;
  ingress: unknown;
  target?: Parameters<typeof managedCertificates>[0]["target"];
  info?: () => Promise<ServerInfo>;
}

function managed({ rules, ingress, target = HTTPS, info = infoOf(ABLE) }: Case) {
  const spec = specOf(ingress);
  return managedCertificates({ rules, spec, target, info, warn: (text) => assert.fail(text) });
}

async function refused(act: Promise<unknown>, code: ErrorCode, why: RegExp, help: RegExp) {
  await assert.rejects(act, (error) => {
    assert.ok(error instanceof SvcError, String(error));
    assert.equal(error.code, code);
    assert.match(error.message, why);
    assert.match(error.help, help);
    return true;
  });
}

async function withRules(
  work: (rules: { app: CertificateSettings[0]; wild: CertificateSettings[0] }) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    const ca = await makeAuthority(folder);
    const issue = async (name: string, ...names: string[]) => {
      const { cert, key } = await ca.issue(name, { names: names.map((name) => `DNS:${name}`) });
      await Deno.chmod(key, 0o600);
      return { certificate: cert, key };
    };
    await work({
      app: await issue("app", "app.example.com", "www.example.com"),
      wild: await issue("wild", "*.example.com"),
    });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test({
  name: "native certificates: each host's by the rules, hosts of one certificate together",
  ignore,
}, async () => {
  await withRules(async ({ app, wild }) => {
    const hosts = ["App.example.com", "a.example.com", "www.example.com", "*.example.com"];
    // Two rules may name one certificate.
    const rules = [
      { ...app, pattern: "app.example.com" },
      wild,
      { ...app, pattern: "www.example.com" },
    ];
    const found = await managed({ rules, ingress: { hosts: [...hosts, "a.example.com"] } });
    assert.deepEqual(found?.map(({ hosts }) => hosts), [
      ["app.example.com", "www.example.com"],
      ["a.example.com", "*.example.com"],
    ]);
    assert.equal(found[0].certificate, await Deno.readTextFile(app.certificate));
    assert.equal(found[0].key, await Deno.readTextFile(app.key));
    assert.equal(found[1].key, await Deno.readTextFile(wild.key));
  });
});

Deno.test({
  name: "error: native ingress host that matches no certificate rule is rejected, with the rules",
  ignore,
}, async () => {
  await withRules(async ({ app, wild }) => {
    await refused(
      managed({ rules: [app, wild], ingress: { hosts: ["app.example.com", "far.example.org"] } }),
      "spec_invalid",
      /^Cannot deploy web .*: ingress host far\.example\.org matches none of the rules: app\.example\.com, www\.example\.com, \*\.example\.com$/,
      /add a rule for it to conduit\.ingress\.certificates/,
    );
    for (const host of ["*.app.example.com", "a.b.example.com", "example.com", "bad host"]) {
      const act = managed({ rules: [wild], ingress: { hosts: [host] } });
      await refused(act, "spec_invalid", /matches none of the rules/, /add a rule/);
    }
  });
});

Deno.test("native certificates: hosts that the server would derive have to be written out", async () => {
  const rules = [{ certificate: "/nowhere", key: "/nowhere" }];
  const derived = (ingress: unknown, why: RegExp, help: RegExp, domain?: string) =>
    refused(
      managed({ rules, ingress, info: infoOf(ABLE, domain) }),
      "spec_invalid",
      why,
      help,
    );
  await derived({}, /: ingress leaves the host to the server/, /such as web\.lan/, "lan");
  await derived({ domain: "*.own.test" }, /: ingress leaves/, /such as web\.own\.test/, "lan");
  await derived({ subdomain: "api", hosts: ["x.lan"] }, /: ingress\.subdomain/, /api\.lan/, "lan");
  await derived(
    { hosts: ["x.lan", "@"] },
    /: ingress\.hosts\[1\]: "@" leaves/,
    /such as lan/,
    "lan",
  );
  await derived({ hosts: ["@"] }, /ingress\.hosts\[0\]/, /such as example\.com/);
});

Deno.test("native certificates: none where nothing wants them, and then nothing is read", async () => {
  const rules = [{ certificate: "/nowhere", key: "/nowhere" }];
  const none = async (more: Partial<Case>) =>
    assert.equal(await managed({ rules, ingress: { hosts: ["a.b"] }, ...more }), undefined);
  const never = () => assert.fail("nobody is asked");
  await none({ rules: [], info: never });
  await none({ ingress: undefined, info: never });
  await none({ ingress: { enabled: false, hosts: ["a.b"] }, info: never });
  await none({ ingress: { hosts: ["a.b"], tls: false }, info: never });
  await none({ ingress: { hosts: ["a.b"], tls: { secretName: "own" } }, info: never });
  // A host backend ends TLS elsewhere.
  await none({ info: infoOf(["exec"]), target: { server: "http://far", transport: direct } });
});

Deno.test("error: native managed certificates over remote plaintext HTTP are rejected before a request is made", async () => {
  // Not even read: there are no such files.
  const rules = [{ certificate: "/nowhere", key: "/nowhere" }];
  const target = { server: "http://svc.example:5000", transport: direct };
  await refused(
    managed({ rules, ingress: { hosts: ["a.b"] }, target }),
    "config_invalid",
    /^Cannot send the private keys of ingress certificates to http:\/\/svc\.example:5000: it is plain HTTP/,
    /https:\/\/.*ssh-tunnel/,
  );
  const ssh: Transport = { kind: "ssh", settings: { addr: "lab" } };
  const kube: Transport = { kind: "kube", settings: { service: "svc", "remote-port": 80 } };
  const ways: [server: string, transport: Transport, good: boolean][] = [
    ["https://svc.example", direct, true],
    ["http://127.0.0.1:5000", ssh, true],
    ["http://svc.ns:80", kube, true],
    ["http://svc.ns:80", direct, false],
    ["http://localhost:5000", direct, true],
    ["http://127.0.0.1:5000", direct, true],
    ["http://127.1.2.3", direct, true],
    ["http://[::1]:5000", direct, true],
    ["http://[::ffff:127.0.0.1]:5000", direct, false],
    ["http://10.0.0.1:5000", direct, false],
    ["http://127.0.0.1.example.com", direct, false],
    ["http://localhost.example.com", direct, false],
    ["http://0.0.0.0:5000", direct, false],
  ];
  for (const [server, transport, good] of ways) {
    assert.equal(keepsSecrets({ server, transport }), good, `${server} ${transport.kind}`);
  }
});
