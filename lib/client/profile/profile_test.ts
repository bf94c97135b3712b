/** Every row of the profile's tables in SPEC.md, "Client connection profile file". */
import assert from "node:assert/strict";
import { SvcError } from "../../base/errors.ts";
import type { Field } from "./field.ts";
import { CONTEXT_FIELDS } from "./fields.ts";
import { profilePath } from "./location.ts";
import { absolutePaths } from "./paths.ts";
import { redactProfile } from "./redact.ts";
import type { Context } from "./types.ts";
import { checkContext, checkProfile } from "./validate.ts";

const tls = { "client-cert": "c.pem", "client-key": "k.pem" };
const forward = { service: "svc", "remote-port": 5000 };
const kube = { "service-account": "ci" };
const fingerprint = `SHA256:${"A".repeat(43)}`;
const key = { "identity-file": "~/.ssh/id" };
const ssh = { addr: "lab" };
const certificate = { certificate: "c.pem", key: "k.pem" };

/** Row → a good value in its surroundings, and bad ones with what is said of them. */
type Row = [row: string, good: unknown, bad: [value: unknown, said: RegExp][], around?: object];

const NUMBER: [unknown, RegExp] = [3, /expected text, got a number$/];
const TEXT_FOR_BOOL: [unknown, RegExp] = ["yes", /expected true or false, got text$/];
const PORTS: [unknown, RegExp][] = [
  ["80", /expected a whole number, got text$/],
  [0, /expected 1\.\.65535, got 0$/],
  [65536, /expected 1\.\.65535/],
  [1.5, /1\.5 is not a whole number$/],
];

const ROWS: Row[] = [
  ["server", "https://svc.example:5443", [
    NUMBER,
    ["ftp://x", /is not http\(s\):\/\/<host>/],
    ["svc.example", /is not http/],
    ["http://u:p@x", /is not http/],
  ]],
  ["registry-host", "registry.example:5000", [["http://x", /is not host\[:port\]/]]],
  ["token", "secret", [NUMBER, [["a"], /expected text, got a list$/]]],
  ["tls", tls, [["x", /expected a block, got text$/]]],
  ["port-forward", forward, [
    [{ service: "svc" }, /port-forward\.remote-port: missing$/],
    [{ "remote-port": 1 }, /port-forward\.service: missing$/],
  ]],
  ["kube-auth", kube, [[{ audience: "a" }, /kube-auth\.service-account: missing$/]]],
  ["key-auth", key, [[
    { name: "me" },
    /key-auth\.identity-file: missing; give it, key-fingerprint/,
  ]]],
  ["via-server", true, [TEXT_FOR_BOOL]],
  ["conduit", { mode: "socks5" }, [[[], /expected a block, got a list$/]]],
  ["ssh-tunnel", ssh, [[{ user: "u" }, /ssh-tunnel\.addr: missing$/]]],
  ["tunnel", { "authtoken-file": "t" }, [[1, /expected a block, got a number$/]]],
  ["shells", ["bash", "busybox sh"], [
    ["bash", /expected a list, got text$/],
    [["bash", 1], /shells\[1\]: expected text, got a number$/],
    [["  "], /shells\[0\]: it is empty$/],
  ]],
  ["key-auth.identity-file", "id", [NUMBER]],
  ["key-auth.key-fingerprint", fingerprint, [["MD5:aa", /is not SHA256:<fingerprint>/]]],
  ["key-auth.name", "me", [NUMBER], key],
  ["key-auth.scope", "api registry:pull", [NUMBER], key],
  ["key-auth.ttl", "24h", [
    ["25h", /is not above 0 and at most 24h$/],
    ["0s", /is not above 0/],
    ["soon", /is not a duration/],
  ], key],
  ["conduit.mode", "port-forward", [[
    "sock5",
    /is not one of port-forward, socks5; did you mean socks5\?$/,
  ]]],
  ["conduit.socks5", {}, [["x", /expected a block/]]],
  ["conduit.ingress", {}, [["x", /expected a block/]]],
  ["conduit.socks5.listen", "127.0.0.1:1080", [["1080", /is not \[host\]:port$/]]],
  ["conduit.socks5.service-host-suffix", ".svc.internal", [NUMBER]],
  ["conduit.socks5.resolve", [{ pattern: "^db", replace: "db:5432" }], [
    [{}, /expected a list, got a block$/],
    [[{ pattern: "a" }], /resolve\[0\]\.replace: missing$/],
  ]],
  ["conduit.socks5.bare-service-names", false, [TEXT_FOR_BOOL]],
  ["conduit.socks5.resolve[].pattern", "^a:(\\d+)$", [["(", /is not a regular expression$/]], {
    replace: "a:1",
  }],
  ["conduit.socks5.resolve[].replace", "db:\\1", [NUMBER], { pattern: "a" }],
  ["ssh-tunnel.addr", "me@host:2222", [["ssh://x", /is not \[user@\]host\[:port\]/], [
    "@h",
    /is not/,
  ], [
    "-x@h",
    /is not/,
  ]]],
  ["ssh-tunnel.user", "root", [NUMBER], ssh],
  ["ssh-tunnel.remote-addr", "127.0.0.1:5000", [["a b", /is not host/]], ssh],
  ["ssh-tunnel.identity-file", "id", [NUMBER], ssh],
  ["ssh-tunnel.no-agent", true, [TEXT_FOR_BOOL], ssh],
  ["ssh-tunnel.known-hosts", "kh", [NUMBER], ssh],
  ["ssh-tunnel.host-key", "ssh-ed25519 AAAAC3Nz", [["nonsense", /public-key form/]], ssh],
  ["ssh-tunnel.insecure-host-key", true, [TEXT_FOR_BOOL], ssh],
  ["ssh-tunnel.remote-tls", true, [TEXT_FOR_BOOL], ssh],
  ["ssh-tunnel.no-ssh-config", true, [TEXT_FOR_BOOL], ssh],
  ["ssh-tunnel.use-ssh-binary", true, [TEXT_FOR_BOOL], ssh],
  ["conduit.ingress.mode", "emulate", [["nativ", /did you mean native\?$/]]],
  ["conduit.ingress.controller", {}, [["x", /expected a block/]]],
  ["conduit.ingress.ca-file", "ca.pem", [NUMBER], { "ca-key-file": "k" }],
  ["conduit.ingress.ca-key-file", "ca.key", [NUMBER], { "ca-file": "c" }],
  ["conduit.ingress.certificates", [certificate], [
    [[{ certificate: "c" }], /certificates\[0\]\.key: missing$/],
    [[{ key: "c" }], /certificates\[0\]\.certificate: missing$/],
  ]],
  [
    "conduit.ingress.certificates[].pattern",
    "*.example.com",
    [["a.*.b", /is neither a DNS name/]],
    certificate,
  ],
  ["conduit.ingress.certificates[].certificate", "c.pem", [NUMBER], certificate],
  ["conduit.ingress.certificates[].key", "k.pem", [NUMBER], certificate],
  ["conduit.ingress.controller.kube-context", "kind", [NUMBER]],
  ["conduit.ingress.controller.namespace", "ingress", [NUMBER]],
  ["conduit.ingress.controller.service", "nginx", [NUMBER]],
  ["conduit.ingress.controller.http-port", 80, PORTS],
  ["conduit.ingress.controller.https-port", 443, PORTS],
  ["tunnel.authtoken-file", "token", [NUMBER]],
  ["tunnel.ingress-host-mode", "alias", [["rewrit", /did you mean rewrite\?$/]]],
  ["tls.ca-cert", "ca.pem", [NUMBER]],
  ["tls.server-name", "svc.example", [NUMBER]],
  ["tls.insecure-skip-verify", true, [TEXT_FOR_BOOL]],
  ["tls.client-cert", "c.pem", [NUMBER], { "client-key": "k" }],
  ["tls.client-key", "k.pem", [NUMBER], { "client-cert": "c" }],
  ["port-forward.kube-context", "kind", [NUMBER], forward],
  ["port-forward.namespace", "svc", [NUMBER], forward],
  ["port-forward.service", "svc", [NUMBER], forward],
  ["port-forward.remote-port", 5000, PORTS, forward],
  ["kube-auth.kube-context", "kind", [NUMBER], kube],
  ["kube-auth.namespace", "svc", [NUMBER], kube],
  ["kube-auth.service-account", "ci", [NUMBER]],
  ["kube-auth.audience", "svc", [NUMBER], kube],
  ["kube-auth.expiration-seconds", 600, [[0, /0 is not positive$/], [
    "1h",
    /whole number, got text$/,
  ]], kube],
  ["token-exchange", {}, [[true, /expected a block, got true or false$/]]],
  ["token-exchange.enabled", true, [TEXT_FOR_BOOL]],
  ["token-exchange.scope", "registry:pull", [NUMBER]],
];

/** `a.b[].c` with a value, what stands around it beside it. */
function document(row: string, value: unknown, around: object = {}): Record<string, unknown> {
  const parts = row.split(".");
  return parts.reduceRight<unknown>((inner, part, i) => {
    const list = part.endsWith("[]");
    const name = list ? part.slice(0, -2) : part;
    return { ...(i === parts.length - 1 && around), [name]: list ? [inner] : inner };
  }, value) as Record<string, unknown>;
}

function refused(act: () => unknown, said: RegExp): void {
  assert.throws(act, (error) => {
    assert.ok(error instanceof SvcError, String(error));
    assert.equal(error.code, "config_invalid");
    assert.match(error.message, said);
    return true;
  });
}

for (const [row, good, bad, around] of ROWS) {
  Deno.test(`profile row ${row}`, () => {
    const document_ = document(row, good, around);
    assert.deepEqual(checkContext(document_, "f"), document_);
    for (const [value, said] of bad) {
      refused(
        () => checkProfile({ contexts: { prod: document(row, value, around) } }, "config.yaml"),
        said,
      );
      try {
        checkProfile({ contexts: { prod: document(row, value, around) } }, "config.yaml");
      } catch (error) {
        const block = row.replaceAll("[]", "[0]");
        assert.ok(
          (error as Error).message.startsWith(`Cannot read config.yaml: contexts.prod.${block}`),
          (error as Error).message,
        );
      }
    }
  });
}

Deno.test("every field of the tables has a row above, and every row a field", () => {
  const names = (fields: readonly Field[], above: string): string[] =>
    fields.flatMap((field) => {
      const name = above + field.name;
      const inner = field.kind === "blocks" ? `${name}[].` : `${name}.`;
      return [name, ...names(field.fields ?? [], inner)];
    });
  assert.deepEqual(names(CONTEXT_FIELDS, "").sort(), ROWS.map(([row]) => row).sort());
});

Deno.test("File (top level): current-context and contexts", () => {
  assert.deepEqual(checkProfile(null, "f"), { contexts: {} });
  assert.deepEqual(checkProfile({ "current-context": "", contexts: null }, "f"), { contexts: {} });
  assert.deepEqual(checkProfile({ "current-context": "a", contexts: { a: null } }, "f"), {
    "current-context": "a",
    contexts: { a: {} },
  });
  refused(
    () => checkProfile({ "current-context": 1 }, "f"),
    /^Cannot read f: current-context: expected text/,
  );
  refused(() => checkProfile({ contexts: [] }, "f"), /contexts: expected a block, got a list/);
  refused(
    () => checkProfile({ context: {} }, "f"),
    /context: unknown field; did you mean contexts\?/,
  );
  refused(() => checkProfile("text", "f"), /expected fields, got text/);
  refused(
    () => checkProfile({ contexts: { "a b": { tls: { cacert: "x" } } } }, "f"),
    /contexts\."a b"\.tls\.cacert: unknown field; did you mean ca-cert\?/,
  );
});

Deno.test("fields that need or exclude each other", () => {
  refused(
    () => checkContext({ "key-auth": key, "kube-auth": kube }, "f"),
    /key-auth: cannot stand beside kube-auth/,
  );
  refused(
    () => checkContext({ "port-forward": forward, "ssh-tunnel": ssh }, "f"),
    /ssh-tunnel: cannot stand beside port-forward/,
  );
  // An explicit server makes both inert.
  checkContext({ server: "http://x", "port-forward": forward, "ssh-tunnel": ssh }, "f");
  refused(
    () => checkContext({ tls: { "client-cert": "x" } }, "f"),
    /tls\.client-key: missing; client-cert needs it/,
  );
  refused(() => checkContext({ tls: { "client-key": "x" } }, "f"), /tls\.client-cert: missing/);
  refused(
    () => checkContext({ conduit: { ingress: { "ca-file": "x" } } }, "f"),
    /conduit\.ingress\.ca-key-file: missing; ca-file needs it/,
  );
});

Deno.test("location rules: three platforms, XDG_CONFIG_HOME, SVC_CONFIG", () => {
  const at = (os: typeof Deno.build.os, env: Record<string, string>, explicit?: string) =>
    profilePath({ os, env, explicit });
  assert.equal(at("linux", { HOME: "/h" }), "/h/.config/svc/config.yaml");
  assert.equal(at("freebsd", { HOME: "/h" }), "/h/.config/svc/config.yaml");
  assert.equal(at("darwin", { HOME: "/h" }), "/h/Library/Application Support/svc/config.yaml");
  assert.equal(at("windows", { APPDATA: "C:\\a", HOME: "/h" }), "C:\\a\\svc\\config.yaml");
  assert.equal(
    at("windows", { APPDATA: "C:\\a", XDG_CONFIG_HOME: "D:\\x" }),
    "D:\\x\\svc\\config.yaml",
  );
  for (const os of ["linux", "darwin"] as const) {
    assert.equal(at(os, { HOME: "/h", XDG_CONFIG_HOME: "/x" }), "/x/svc/config.yaml");
    assert.equal(at(os, { HOME: "/h", XDG_CONFIG_HOME: "/x" }, "/e.yaml"), "/e.yaml");
  }
  assert.equal(at("linux", {}), undefined);
  assert.equal(at("windows", {}), undefined);
});

Deno.test("paths start at the file's folder, ~ is home, names are left alone", () => {
  const context: Context = {
    tls: { "ca-cert": "ca.pem", "server-name": "n" },
    "key-auth": { "identity-file": "~/.ssh/id", name: "n" },
    conduit: { ingress: { certificates: [{ certificate: "../c", key: "/k" }] } },
  };
  assert.deepEqual(absolutePaths(context, "/p/q", "/h"), {
    tls: { "ca-cert": "/p/q/ca.pem", "server-name": "n" },
    "key-auth": { "identity-file": "/h/.ssh/id", name: "n" },
    conduit: { ingress: { certificates: [{ certificate: "/p/c", key: "/k" }] } },
  });
});

Deno.test("redaction hides tokens and nothing else", () => {
  const profile = { contexts: { a: { server: "http://x", token: "s3cret" } } };
  assert.deepEqual(redactProfile(profile), {
    contexts: { a: { server: "http://x", token: "REDACTED" } },
  });
  assert.equal(profile.contexts.a.token, "s3cret");
});
