/**
 * The ledger of SPEC.md's client tables: every row with a test of what it does. Rows that need a peer name the
 * file and the test of it; the others are tried here. What is validated of each field is in
 * profile/profile_test.ts.
 */
import assert from "node:assert/strict";
import { join, resolve as resolvePath } from "node:path";
import { BUILD_OPTIONS, GLOBAL_OPTIONS } from "../commands/options.ts";
import { SESSION_OPTIONS } from "../commands/session_options.ts";
import { TUNNEL_OPTIONS } from "../commands/tunnel_options.ts";
import type { AnyOption } from "../config/load.ts";
import type { Field } from "./profile/field.ts";
import { CONTEXT_FIELDS } from "./profile/fields.ts";
import type { Context } from "./profile/types.ts";
import { type ResolveInput, resolveTarget, type Target } from "./resolve.ts";

const ROOT = resolvePath(import.meta.dirname!, "../..");

/** The target of a context that is the selected one. */
async function resolved(context: Context, more: Partial<ResolveInput> = {}): Promise<Target> {
  const home = await Deno.makeTempDir();
  try {
    const configFile = join(home, "config.json");
    const profile = { "current-context": "t", contexts: { t: context } };
    await Deno.writeTextFile(configFile, JSON.stringify(profile), { mode: 0o600 });
    return await resolveTarget({
      os: "linux",
      env: { HOME: home },
      cwd: home,
      uid: Deno.uid(),
      configFile,
      warn: (text) => assert.fail(text),
      ...more,
    });
  } finally {
    await Deno.remove(home, { recursive: true });
  }
}

const forward = { service: "svc", "remote-port": 80, "kube-context": "kind", namespace: "ns" };
const ssh = { addr: "lab" };
const key = { "identity-file": "/id" };
const server = "http://s:1";

/** What a row does: tried by a function, or by the test of another file whose title names it. */
type Effect = [what: string, test: () => Promise<void>] | [file: string, title: string];

const TLS = "lib/client/transport/tls_test.ts";
const KUBE = "lib/client/kube/kube_test.ts";
const SSH = "test/e2e/client_ssh_test.ts";
const LOGIN = "test/e2e/client_login_test.ts";
const RESOLVE = "lib/client/resolve_test.ts";
const CONNECT = "lib/commands/connect_test.ts";
const DEPLOY = "lib/commands/deploy_session_test.ts";
const SESSION = "lib/commands/session_options_test.ts";
const TUNNEL = "lib/commands/tunnel_test.ts";
const PLACE = "lib/commands/build/place_test.ts";
const PROFILE = "lib/client/profile/profile_test.ts";
const INGRESS = "lib/client/conduit/ingress_test.ts";
const NATIVE = "lib/client/conduit/ingress_native_test.ts";
const CERTIFICATES = "lib/client/conduit/certificates_test.ts";
const MANAGED = "lib/client/conduit/managed_certificates_test.ts";
const SOCKS5 = "lib/commands/socks5_test.ts";

const FIELDS: Record<string, Effect> = {
  "context.server": [
    "the endpoint, before port-forward and ssh-tunnel; else localhost:5000",
    async () => {
      const all = await resolved({ server, "ssh-tunnel": ssh, "port-forward": forward });
      assert.deepEqual([all.server, all.transport.kind], [server, "direct"]);
      assert.equal((await resolved({})).server, "http://localhost:5000");
      const flag = { value: "http://f", source: "--server" };
      assert.equal((await resolved({ server }, { server: flag })).server, "http://f");
    },
  ],
  "context.registry-host": [PLACE, "profile: context.registry-host"],
  "context.token": ["the bearer token, below SVC_TOKEN, key-auth and kube-auth", async () => {
    const of = async (context: Context, token?: string) =>
      (await resolved({ server, token: "p", ...context }, { ...(token && { token }) })).credential;
    assert.deepEqual(await of({}), { kind: "token", token: "p", source: "context t" });
    assert.deepEqual(await of({}, "e"), { kind: "token", token: "e", source: "SVC_TOKEN" });
    assert.equal((await of({ "key-auth": key })).kind, "key");
    assert.equal((await of({ "kube-auth": { "service-account": "ci" } })).kind, "kube");
    assert.deepEqual((await resolved({ server })).credential, { kind: "none" });
  }],
  "context.tls": ["settings of the way; an empty block is none", async () => {
    const tls = { "ca-cert": "/ca" };
    assert.deepEqual((await resolved({ server: "https://s", tls })).tls, tls);
    assert.equal(
      (await resolved({ server, tls: { "insecure-skip-verify": false } })).tls,
      undefined,
    );
  }],
  "context.port-forward": [
    "the way where server is empty; TLS inside where tls is set",
    async () => {
      const plain = await resolved({ "port-forward": forward });
      assert.deepEqual(plain.transport, { kind: "kube", settings: forward });
      assert.equal(plain.server, "http://svc.ns:80");
      const secure = await resolved({ "port-forward": forward, tls: { "ca-cert": "/ca" } });
      assert.equal(secure.server, "https://svc.ns:80");
    },
  ],
  "context.kube-auth": [KUBE, "kube-auth's token is what the server is sent"],
  "context.key-auth": [LOGIN, "key-auth.identity-file"],
  "context.token-exchange": [RESOLVE, "token exchange: whatever the credential"],
  "context.via-server": ["off, the context's, then flag or variable", async () => {
    const of = async (context: Context, more?: Partial<ResolveInput>) =>
      (await resolved({ "port-forward": forward, ...context }, more)).viaServer.value;
    assert.equal(await of({}), false);
    assert.equal(await of({ "via-server": true }), true);
    const viaServer = { value: false, source: "SVC_VIA_SERVER" };
    assert.equal(await of({ "via-server": true }, { viaServer }), false);
  }],
  "context.conduit": [DEPLOY, "conduit, conduit.mode, SVC_CONDUIT: flag"],
  "context.ssh-tunnel": [
    "the way where server is empty, to 127.0.0.1:5000 of the host",
    async () => {
      const target = await resolved({ "ssh-tunnel": ssh });
      assert.deepEqual(target.transport, { kind: "ssh", settings: ssh });
      assert.equal(target.server, "http://127.0.0.1:5000");
      assert.equal((await resolved({ "ssh-tunnel": ssh, server })).transport.kind, "direct");
    },
  ],
  "context.shells": ["lib/commands/exec_test.ts", "shells: svc exec -it without a command"],
  "context.tunnel": [TUNNEL, "tunnel.authtoken-file: the profile's file below"],
  "tunnel.ingress-host-mode": [
    "lib/commands/ingress_tunnel_test.ts",
    "tunnel.ingress-host-mode: the default of --host-mode",
  ],
  "tunnel.authtoken-file": [TUNNEL, "tunnel.authtoken-file: the profile's file below"],
  "key-auth.identity-file": [LOGIN, "key-auth.identity-file: ed25519, ecdsa, rsa"],
  "key-auth.key-fingerprint": [LOGIN, "key-auth.key-fingerprint: a key of the agent"],
  "key-auth.name": ["lib/commands/auth_own_key_test.ts", "profile: key-auth.name"],
  "key-auth.scope": [LOGIN, "key-auth.scope and ttl"],
  "key-auth.ttl": [LOGIN, "key-auth.scope and ttl"],
  "conduit.mode": [DEPLOY, "conduit, conduit.mode, SVC_CONDUIT: flag"],
  "conduit.socks5": [SOCKS5, "svc socks5, conduit.socks5:"],
  "conduit.socks5.listen": [SOCKS5, "conduit.socks5.listen"],
  "conduit.socks5.service-host-suffix": [SOCKS5, "conduit.socks5.service-host-suffix"],
  "conduit.socks5.resolve": [SOCKS5, "conduit.socks5.resolve"],
  "conduit.socks5.resolve[].pattern": [SOCKS5, "conduit.socks5.resolve"],
  "conduit.socks5.resolve[].replace": [SOCKS5, "conduit.socks5.resolve"],
  "conduit.socks5.bare-service-names": [SOCKS5, "conduit.socks5.bare-service-names"],
  "conduit.ingress": [INGRESS, "emulated ingress: hundreds"],
  "conduit.ingress.mode": [INGRESS, "Ingress rows: mode emulate"],
  "conduit.ingress.controller": [NATIVE, "native ingress, controller: what the server names"],
  "conduit.ingress.controller.kube-context": [NATIVE, "IngressController rows"],
  "conduit.ingress.controller.namespace": [NATIVE, "IngressController rows"],
  "conduit.ingress.controller.service": [NATIVE, "IngressController rows"],
  "conduit.ingress.controller.http-port": [NATIVE, "IngressController rows"],
  "conduit.ingress.controller.https-port": [NATIVE, "IngressController rows"],
  "conduit.ingress.ca-file": [INGRESS, "Ingress rows: ca-file and ca-key-file sign"],
  "conduit.ingress.ca-key-file": [INGRESS, "Ingress rows: ca-file and ca-key-file sign"],
  "conduit.ingress.certificates": [INGRESS, "certificates by SNI"],
  "conduit.ingress.certificates[].pattern": [CERTIFICATES, "IngressCertificate rows"],
  "conduit.ingress.certificates[].certificate": [CERTIFICATES, "IngressCertificate rows"],
  "conduit.ingress.certificates[].key": [CERTIFICATES, "IngressCertificate rows"],
  "ssh-tunnel.addr": [SSH, "SSHTunnel rows: addr, user"],
  "ssh-tunnel.user": [SSH, "SSHTunnel rows: addr, user"],
  "ssh-tunnel.remote-addr": [SSH, "SSHTunnel rows: addr, user"],
  "ssh-tunnel.identity-file": [SSH, "SSHTunnel rows: addr, user"],
  "ssh-tunnel.no-agent": [SSH, "SSHTunnel rows: addr, user"],
  "ssh-tunnel.known-hosts": [SSH, "SSHTunnel rows: addr, user"],
  "ssh-tunnel.host-key": [SSH, "SSHTunnel rows: host-key, insecure-host-key"],
  "ssh-tunnel.insecure-host-key": [SSH, "SSHTunnel rows: host-key, insecure-host-key"],
  "ssh-tunnel.remote-tls": [SSH, "SSHTunnel row remote-tls"],
  "ssh-tunnel.no-ssh-config": [SSH, "SSHTunnel rows: an alias of ssh_config"],
  "ssh-tunnel.use-ssh-binary": [SSH, "SSHTunnel rows: an alias of ssh_config"],
  "tls.ca-cert": [TLS, "ca-cert: the bundle alone is trusted"],
  "tls.server-name": [TLS, "server-name: SNI"],
  "tls.insecure-skip-verify": [TLS, "insecure-skip-verify"],
  "tls.client-cert": [TLS, "client-cert and client-key"],
  "tls.client-key": [TLS, "client-cert and client-key"],
  "port-forward.kube-context": [KUBE, "PortForward rows"],
  "port-forward.namespace": [KUBE, "PortForward rows"],
  "port-forward.service": [KUBE, "PortForward rows"],
  "port-forward.remote-port": [KUBE, "PortForward rows"],
  "kube-auth.kube-context": [KUBE, "KubeAuth rows"],
  "kube-auth.namespace": [KUBE, "KubeAuth rows"],
  "kube-auth.service-account": [KUBE, "KubeAuth rows"],
  "kube-auth.audience": [KUBE, "KubeAuth rows"],
  "kube-auth.expiration-seconds": [KUBE, "KubeAuth rows"],
  "token-exchange.enabled": [LOGIN, "token-exchange.enabled and scope"],
  "token-exchange.scope": [LOGIN, "token-exchange.enabled and scope"],
};

const VARIABLES: Record<string, Effect> = {
  SVC_SERVER: [CONNECT, "SVC_SERVER, SVC_HOST, SVC_TOKEN"],
  SVC_HOST: [CONNECT, "SVC_SERVER, SVC_HOST, SVC_TOKEN"],
  SVC_TOKEN: [CONNECT, "SVC_SERVER, SVC_HOST, SVC_TOKEN"],
  SVC_TOKEN_CACHE: [LOGIN, "SVC_TOKEN_CACHE: keyring keeps"],
  SVC_CONFIG: [CONNECT, "SVC_CONFIG, SVC_CONTEXT"],
  SVC_CONTEXT: [CONNECT, "SVC_CONFIG, SVC_CONTEXT"],
  SVC_OUTPUT: [CONNECT, "SVC_OUTPUT: plain, json"],
  SVC_CONDUIT: [DEPLOY, "conduit, conduit.mode, SVC_CONDUIT: flag"],
  SVC_VIA_SERVER: [SESSION, "SVC_VIA_SERVER: flag, variable"],
  SVC_BUILDER: [PLACE, "SVC_BUILDER: a builder of its own"],
  SVC_REGISTRY: [PLACE, "build: SVC_REGISTRY names the registry"],
  SVC_GH_BIN: [SESSION, "SVC_GH_BIN: a path or a name"],
  SVC_CONTEXT_FILE: [CONNECT, "SVC_CONTEXT_FILE, --context-file"],
  SVC_TUNNEL_AUTHTOKEN: [
    TUNNEL,
    "tunnel.authtoken-file: the profile's file below flags and variable",
  ],
  SVC_TRUST_CONTEXT_FILE: [CONNECT, "SVC_TRUST_CONTEXT_FILE, --trust-context-file"],
};

/** Rows that are no fields and no variables: File, its location, the override's rules, errors and limits. */
const RULES: Record<string, Effect> = {
  "file: current-context": [PROFILE, "File (top level): current-context and contexts"],
  "file: contexts": [PROFILE, "File (top level): current-context and contexts"],
  "location 1 to 3: platforms, XDG_CONFIG_HOME, SVC_CONFIG": [
    PROFILE,
    "location rules: three platforms",
  ],
  "location 4: 0600 in 0700": ["lib/commands/config_test.ts", "the file is private"],
  "override 1: upward to the repository's root or home": [RESOLVE, "override rule 1: upward"],
  "override 2: a named file": [RESOLVE, "override rule 2: a named file"],
  "override 3: what is found is not trusted": [
    RESOLVE,
    "override rule 3: a found file contributes",
  ],
  "override 3: owners and open folders": [RESOLVE, "override rule 3: another owner"],
  "override 4: trusted by flag or variable": [CONNECT, "SVC_TRUST_CONTEXT_FILE, --trust"],
  "override 5: another endpoint, another credential": [
    RESOLVE,
    "override rule 5: another endpoint",
  ],
  "error: native ingress host matches no certificate rule": [
    MANAGED,
    "error: native ingress host that matches no certificate rule",
  ],
  "error: native managed certificates over remote plaintext HTTP": [
    MANAGED,
    "error: native managed certificates over remote plaintext HTTP",
  ],
  "error: token-exchange scope that is not granted": [LOGIN, "a scope too many is refused"],
  "error: explicit context file missing, or excluded": [
    RESOLVE,
    "a missing one, and --no-context-file",
  ],
  "limit: key-auth session ttl, 1h, at most 24h": [LOGIN, "key-auth.scope and ttl"],
  "a server without token exchange gets the credential itself": [
    "lib/client/credentials/provider_test.ts",
    "a server without an exchange endpoint",
  ],
};

/** `conduit.socks5.resolve[].pattern` */
function fieldRows(fields: readonly Field[], above = ""): string[] {
  return fields.flatMap((field) => {
    const path = above + field.name;
    const inner = field.kind === "blocks" ? `${path}[].` : `${path}.`;
    return [
      above === "" ? `context.${field.name}` : path,
      ...fieldRows(field.fields ?? [], inner),
    ];
  });
}

const TITLES = /(?:Deno\.test\(\{?|e2eTest\(|t\.step\()\s*(?:name: )?(["`])((?:(?!\1).)+)\1/g;

async function titlesOf(file: string): Promise<string[]> {
  const text = await Deno.readTextFile(join(ROOT, file));
  return [...text.matchAll(TITLES)].map((match) => match[2]);
}

for (const [row, [what, how]] of Object.entries({ ...FIELDS, ...VARIABLES, ...RULES })) {
  if (typeof how === "function") {
    Deno.test(`profile: ${row}: ${what}`, how);
    continue;
  }
  Deno.test(`profile: ${row}: tried in ${what}`, async () => {
    const titles = (await titlesOf(what)).filter((title) => title.includes(how));
    assert.notEqual(titles.length, 0, `${what} has no test with ${JSON.stringify(how)}`);
    // The title names the row itself, not only the table.
    const name = row.split(".").at(-1)!;
    if (!(row in FIELDS) || row.startsWith("context.")) return;
    assert.ok(titles.some((title) => title.includes(name)), titles.join());
  });
}

Deno.test("every field and every variable of the client is in the ledger, and nothing else", () => {
  assert.deepEqual(Object.keys(FIELDS).sort(), fieldRows(CONTEXT_FIELDS).sort());
  const options: readonly AnyOption[] = [
    ...GLOBAL_OPTIONS,
    ...BUILD_OPTIONS,
    ...SESSION_OPTIONS,
    ...TUNNEL_OPTIONS,
  ];
  const variables = options.flatMap(({ env = [] }) => env);
  assert.deepEqual(Object.keys(VARIABLES).sort(), [...new Set(variables)].sort());
});
