import assert from "node:assert/strict";
import type { DeploySpec, IngressSpec } from "../api/deploy_spec.ts";
import { type ErrorCode, SvcError } from "../base/errors.ts";
import { isWithin, requestedHost } from "./host_name.ts";
import { type IngressDefaults, ingressRoutes } from "./hosts.ts";

function spec(ingress?: IngressSpec, more: Partial<DeploySpec> = {}): DeploySpec {
  return {
    name: "web",
    image: "app",
    env: {},
    ports: [{ container: 8080, protocol: "tcp" }],
    mounts: [],
    volumes: [],
    networks: [],
    restart: "no",
    replicas: 1,
    ...more,
    ingress,
  };
}

const hosts = (ingress: IngressSpec, defaults?: IngressDefaults) =>
  ingressRoutes(spec(ingress), defaults).map(({ host }) => host);

function refuses(work: () => unknown, code: ErrorCode, message: RegExp, help?: RegExp) {
  assert.throws(work, (error) => {
    assert(error instanceof SvcError, String(error));
    assert.equal(error.code, code, error.message);
    assert.match(error.message, message);
    if (help) assert.match(error.help, help);
    return true;
  });
}

const domain = "example.com";

Deno.test("hosts: no block and a block that is off ask for nothing, also where nothing could be had", () => {
  assert.deepEqual(ingressRoutes(spec()), []);
  assert.deepEqual(ingressRoutes(spec({ enabled: false, hosts: ["not a host"] })), []);
});

Deno.test("hosts: an empty block is name.domain, port of the container, everything below /", () => {
  assert.deepEqual(ingressRoutes(spec({}), { domain }), [{
    host: "web.example.com",
    path: "/",
    pathType: "Prefix",
    deployment: "web",
    port: 8080,
    tls: false,
  }]);
});

Deno.test("hosts: a port that is only exposed takes requests", () => {
  const exposed = spec({}, { ports: [], expose: [{ container: 9090, protocol: "tcp" }] });
  assert.equal(ingressRoutes(exposed, { domain })[0].port, 9090);
  refuses(() => ingressRoutes(spec({}, { ports: [] }), { domain }), "spec_invalid", /no TCP port/);
});

Deno.test("hosts: hosts, wildcards, @, subdomain and domain", () => {
  const cases: [IngressSpec, IngressDefaults, string[]][] = [
    [{ hosts: ["a.test", "*.b.test"] }, {}, ["a.test", "*.b.test"]],
    [{ hosts: ["@", "www.example.com"] }, { domain }, ["example.com", "www.example.com"]],
    [{ subdomain: "api" }, { domain }, ["api.example.com"]],
    [{ subdomain: "v1.api" }, { domain }, ["v1.api.example.com"]],
    [{ subdomain: "@" }, { domain }, ["example.com"]],
    [{ subdomain: "*" }, { domain }, ["*.example.com"]],
    [{ domain: "own.test" }, { domain }, ["web.own.test"]],
    [{ domain: "own.test", subdomain: "x" }, {}, ["x.own.test"]],
    [{ domain: "own.test", hosts: ["@"] }, { domain }, ["own.test"]],
    [{ hosts: ["a.test"], subdomain: "x" }, { domain }, ["a.test", "x.example.com"]],
    [{}, { domain: "*.Example.com." }, ["web.example.com"]],
    [{ hosts: ["A.Test", "a.test."] }, {}, ["a.test"]],
    [{ hosts: ["bücher.example", "*.Bücher.example"] }, {}, [
      "xn--bcher-kva.example",
      "*.xn--bcher-kva.example",
    ]],
    [{ hosts: ["localhost"] }, {}, ["localhost"]],
  ];
  for (const [ingress, defaults, expected] of cases) {
    assert.deepEqual(hosts(ingress, defaults), expected, JSON.stringify(ingress));
  }
});

Deno.test("hosts: without a host and a domain the error says what to set", () => {
  for (const ingress of [{}, { hosts: ["@"] }, { subdomain: "x" }, { domain: "" }]) {
    refuses(
      () => ingressRoutes(spec(ingress)),
      "spec_invalid",
      /^Cannot deploy web: ingress.* has no host: neither a host nor a domain is set$/,
      /ingress\.hosts or ingress\.domain, or SVC_INGRESS_DOMAIN/,
    );
  }
});

Deno.test("hosts: what is not a host name is refused by its field", () => {
  const wrong = [
    "",
    " ",
    "*",
    "*.",
    "*.*.a.test",
    "a.*.test",
    "x*.a.test",
    "a b.test",
    "a..test",
    ".a.test",
    "-a.test",
    "a-.test",
    "a_b.test",
    "a.test:80",
    "http://a.test",
    "a.test/x",
    "user@a.test",
    "127.0.0.1",
    "0x7f.1",
    "2130706433",
    "[::1]",
    "::1",
    "a%2e.test",
    "a.test\r\nx: y",
    `${"a".repeat(64)}.test`,
    `${"a.".repeat(130)}test`,
  ];
  for (const host of wrong) {
    refuses(
      () => ingressRoutes(spec({ hosts: ["fine.test", host] }), { domain }),
      "spec_invalid",
      /^Cannot deploy web: ingress\.hosts\[1\]: .* is not a host name$/,
    );
  }
  refuses(
    () => ingressRoutes(spec({ subdomain: "a b" }), { domain }),
    "spec_invalid",
    /ingress\.subdomain/,
  );
  refuses(() => ingressRoutes(spec({ domain: "1.2.3.4" })), "spec_invalid", /ingress\.domain/);
  refuses(
    () => ingressRoutes(spec({}), { domain: "a b" }),
    "config_invalid",
    /SVC_INGRESS_DOMAIN/,
  );
});

Deno.test("hosts: an enforced domain refuses what is outside of it, at the boundary of a label", () => {
  const enforced = { domain, enforceDomain: true };
  for (const host of ["example.com", "a.example.com", "a.b.example.com", "*.example.com", "@"]) {
    assert.equal(hosts({ hosts: [host] }, enforced).length, 1, host);
  }
  for (const host of ["evil-example.com", "example.com.evil.test", "com", "*.com", "example.org"]) {
    refuses(
      () => hosts({ hosts: ["a.example.com", host] }, enforced),
      "denied",
      /the ingress host .* is outside the domain example\.com$/,
      /below example\.com/,
    );
    assert.equal(hosts({ hosts: [host] }, { domain }).length, 1, host);
    assert.equal(hosts({ hosts: [host] }, { enforceDomain: true }).length, 1, host);
  }
  refuses(() => hosts({ domain: "evil.test" }, enforced), "denied", /web\.evil\.test/);
  assert(!isWithin("example.com", "a.example.com"));
});

Deno.test("hosts: the port is the block's, else the first TCP port; else an error says so", () => {
  const ports = [
    { container: 53, protocol: "udp" as const },
    { container: 81, host: 8081, protocol: "tcp" as const },
    { container: 82, protocol: "tcp" as const },
  ];
  const port = (ingress: IngressSpec, more: Partial<DeploySpec>) =>
    ingressRoutes(spec({ hosts: ["a.test"], ...ingress }, more))[0].port;
  assert.equal(port({}, { ports }), 81);
  assert.equal(port({ port: 9 }, { ports }), 9);
  assert.equal(port({ port: 9 }, { ports: [] }), 9);
  for (const none of [[], ports.slice(0, 1)]) {
    refuses(() => port({}, { ports: none }), "spec_invalid", /no port/, /ingress\.port/);
  }
});

Deno.test("hosts: paths, their types, and TLS", () => {
  const route = (ingress: IngressSpec) => ingressRoutes(spec({ hosts: ["a.test"], ...ingress }))[0];
  assert.equal(route({ pathType: "Exact" }).pathType, "Exact");
  assert.equal(route({ pathType: "ImplementationSpecific" }).pathType, "Prefix");
  assert.equal(route({ path: "/api/v1/" }).path, "/api/v1/");
  assert.equal(route({ path: "/bücher" }).path, "/b%C3%BCcher");
  for (const path of ["/a b", "/a?b", "/a#b", "//a", "/a//b", "/a/./b", "/a/..", "/a\\b", "/\n"]) {
    refuses(() => route({ path }), "spec_invalid", /ingress\.path/);
  }
  assert.equal(route({ tls: true }).tls, true);
  assert.equal(route({ tls: { secretName: "s" } }).tls, true);
  assert.equal(route({ tls: false }).tls, false);
});

Deno.test("hosts: the name in a Host field", () => {
  const cases: [string, string | undefined][] = [
    ["a.test", "a.test"],
    ["A.Test:8080", "a.test"],
    ["a.test.", "a.test"],
    ["a.test.:80", "a.test"],
    ["[::1]:80", "[::1]"],
    ["127.0.0.1", "127.0.0.1"],
    ["", ""],
    ["a.test:", "a.test"],
    ["a.test:80:81", undefined],
    ["a.test/x", undefined],
    ["a b", undefined],
    ["user@a.test", undefined],
    ["*.a.test", undefined],
    ["a.test:port", undefined],
    ["a.test, b.test", undefined],
    ["bücher.example", undefined],
  ];
  for (const [text, expected] of cases) assert.equal(requestedHost(text), expected, text);
});
