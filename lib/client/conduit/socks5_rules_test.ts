import assert from "node:assert/strict";
import { SvcError } from "../../base/errors.ts";
import { canonicalHost, canonicalSuffix, Resolver } from "./socks5_resolve.ts";
import { ResolveRules, servicePort } from "./socks5_rules.ts";

const says = (code: string, message: RegExp) => (error: unknown) =>
  error instanceof SvcError && error.code === code && message.test(error.message);

const compile = (...rules: [pattern: string, replace: string][]) =>
  ResolveRules.compile(rules.map(([pattern, replace]) => ({ pattern, replace })));

Deno.test("rules: the first match, sed's backreferences, the template is the whole result", async () => {
  const rules = await compile(
    ["^db-(\\w+)\\.corp:(\\d+)$", "\\1:\\2"],
    ["^db", "db:5432"],
    ["(.)(x)?(-)", "\\1\\2b:80"],
    ["^whole$", "never:1"],
    ["^all:1", "\\0"],
  );
  const rows: [string, string | undefined][] = [
    ["db-main.corp:5432", "main:5432"],
    ["db.anything.else:9", "db:5432"],
    // A group that took no part is empty; the pattern need not stand at the start.
    ["zzq-:1", "qb:80"],
    ["all:12", "all:1"],
    ["none.example:443", undefined],
    ["[2001:db8::1]:443", undefined],
  ];
  for (const [subject, expected] of rows) {
    const found = rules.apply(subject);
    assert.equal(found && `${found.name}:${found.port}`, expected, subject);
  }
});

Deno.test("rules: what cannot be right is refused at once, the rest where it shows", async () => {
  const rows: [string, string, RegExp][] = [
    ["(", "a:1", /^Cannot use resolve rule 2: "\(" is not a regular expression$/],
    ["a", "web", /"web" is not service:port/],
    ["a", "web:0", /is not service:port/],
    ["a", "web:65536", /is not service:port/],
    ["a", "web:080", /is not service:port/],
    ["a", "a.b:80", /is not service:port/],
    ["a", ":80", /is not service:port/],
    ["a", "&:80", /is not service:port/],
    ["a", "$1:80", /is not service:port/],
    ["(a)", "\\1:\\2", /has \\2, and the pattern has 1 groups/],
    ["a", "\\n:80", /a backslash with neither digit nor backslash/],
    ["a", "web:80\\", /a backslash with neither/],
  ];
  for (const [pattern, replace, message] of rows) {
    await assert.rejects(
      compile(["ok", "ok:1"], [pattern, replace]),
      says("config_invalid", message),
    );
  }
  const rules = await compile(["^(.*):(\\d*)$", "\\1:\\2"]);
  assert.deepEqual(rules.apply("WEB:80"), { name: "web", port: 80 });
  for (const subject of ["a.b:80", "web:", "web:70000", "[::1]:80"]) {
    assert.throws(
      () => rules.apply(subject),
      says("config_invalid", /, which is not service:port$/),
    );
  }
});

Deno.test("rules: a pattern that would go on for ever is stopped, and the next subject is served", async () => {
  const rules = await ResolveRules.compile([
    { pattern: "^(a+)+:", replace: "web:80" },
    { pattern: "(x+x+)+y", replace: "web:80" },
  ], 100);
  for (const subject of [`${"a".repeat(250)}!:80`, `${"x".repeat(255)}:80`]) {
    assert.throws(() => rules.apply(subject), says("timeout", /did not end in 100 ms$/));
  }
  const patient = await compile(["^(a+)+:", "web:80"]);
  assert.deepEqual(patient.apply("aaa:80"), { name: "web", port: 80 });
});

Deno.test("rules: service:port", () => {
  assert.deepEqual(servicePort("web:80"), { name: "web", port: 80 });
  assert.deepEqual(servicePort("Web-2:65535"), { name: "web-2", port: 65535 });
  for (const text of ["", ":", "web", "web:", "web:a", "-a:1", `${"a".repeat(64)}:1`, "a:1:2"]) {
    assert.equal(servicePort(text), undefined, text);
  }
});

Deno.test("resolver: hosts and suffixes without regard to case, trailing dot, leading dot", () => {
  assert.equal(canonicalHost("Db.SVC.internal."), "db.svc.internal");
  for (const suffix of [".svc.internal", "svc.internal", ".SVC.Internal."]) {
    assert.equal(canonicalSuffix(suffix), ".svc.internal");
  }
  for (const suffix of ["", ".", "a b", "..", "*.svc", "a/b"]) {
    assert.throws(
      () => canonicalSuffix(suffix),
      says("config_invalid", /is not the end of a host/),
    );
  }
});

Deno.test("resolver: suffix, then bare names; nothing under the suffix ever goes out", async () => {
  const asked: string[] = [];
  const isLive = (name: string) => {
    asked.push(name);
    return Promise.resolve(name === "web");
  };
  const resolver = new Resolver({ suffix: ".svc.internal", isLive });
  assert.deepEqual(await resolver.resolve("db.svc.internal", 5432), { name: "db", port: 5432 });
  assert.deepEqual(await resolver.resolve("web", 80), { name: "web", port: 80 });
  for (const host of ["other", "svc.internal", "db.svc.internal.example", "10.0.0.1", "::1"]) {
    assert.equal(await resolver.resolve(host, 80), undefined, host);
  }
  for (const host of ["a.b.svc.internal", ".svc.internal", "a_b.svc.internal"]) {
    await assert.rejects(
      resolver.resolve(host, 80),
      says("not_found", /is not the name of a service$/),
    );
  }
  assert.deepEqual(asked, ["web", "other"]);
});
