import assert from "node:assert/strict";
import { join } from "node:path";
import { type Authority, EXPIRED, hasOpenssl, makeAuthority } from "../../../test/peers/pki.ts";
import { SvcError } from "../../base/errors.ts";
import {
  CertificateRule,
  CertificateRules,
  type CertificateSettings,
  loadCertificates,
  watchCertificates,
} from "./certificates.ts";

const ignore = !hasOpenssl();

async function withAuthority(work: (ca: Authority, folder: string) => Promise<void>) {
  const folder = await Deno.makeTempDir();
  try {
    await work(await makeAuthority(folder), folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function issue(ca: Authority, name: string, names: string[], dates = {}) {
  const { cert, key } = await ca.issue(name, {
    names: names.map((name) => `DNS:${name}`),
    ...dates,
  });
  await Deno.chmod(key, 0o600);
  return { certificate: cert, key };
}

const silent = (text: string) => assert.fail(text);

async function refused(rules: CertificateSettings, why: RegExp): Promise<void> {
  await assert.rejects(loadCertificates(rules, () => {}), (error) => {
    assert.ok(error instanceof SvcError);
    assert.equal(error.code, "config_invalid");
    assert.match(error.message, why);
    assert.doesNotMatch(error.message, /-----BEGIN|PRIVATE/);
    return true;
  });
}

Deno.test("certificate rules: exact beats wildcard, a longer suffix a shorter one, the earlier the later", () => {
  const rule = (field: string, ...patterns: string[]) =>
    new CertificateRule(field, patterns, { certificate: field, key: "secret of the key" });
  const rules = new CertificateRules([
    rule("wild", "*.example.com"),
    rule("exact", "app.example.com", "other.example.com"),
    rule("deep", "*.eu.example.com", "*.b"),
    rule("again", "app.example.com", "*.example.com"),
  ]);
  const selected = (host: string) => rules.select(host)?.field;
  assert.equal(selected("app.example.com"), "exact");
  assert.equal(selected("APP.example.com"), "exact");
  assert.equal(selected("any.example.com"), "wild");
  assert.equal(selected("x.eu.example.com"), "deep");
  assert.equal(selected("*.example.com"), "wild");
  assert.equal(selected("example.com"), undefined);
  assert.equal(selected("a.b.example.com"), undefined);
  assert.equal(selected("b"), undefined);
  // What is shown of a rule, by whatever accident, has no key in it.
  const shown = [Deno.inspect(rules, { depth: 9, showHidden: true }), JSON.stringify(rules)].join();
  assert.doesNotMatch(shown, /secret of the key/);
});

Deno.test({
  name: "IngressCertificate rows: pattern, certificate, key: the names cover the pattern",
  ignore,
}, async () => {
  await withAuthority(async (ca, folder) => {
    const app = await issue(ca, "app", ["app.example.com", "Other.Example.com"]);
    const wild = await issue(ca, "wild", ["*.example.com"]);
    const rules = await loadCertificates(
      [{ ...app, pattern: "App.example.com" }, app, { ...wild, pattern: "one.example.com" }, wild],
      silent,
    );
    assert.deepEqual(rules.all.map(({ patterns }) => patterns), [
      ["app.example.com"],
      ["app.example.com", "other.example.com"],
      ["one.example.com"],
      ["*.example.com"],
    ]);
    assert.equal(rules.all[1].pem().certificate, await Deno.readTextFile(app.certificate));
    assert.equal(rules.all[1].pem().key, await Deno.readTextFile(app.key));

    const at = /^Cannot use conduit\.ingress\.certificates/.source;
    const second = (rule: CertificateSettings[number]) => [app, rule];
    await refused(
      second({ ...app, pattern: "far.example.com" }),
      new RegExp(`${at}\\[1\\]\\.pattern: far\\.example\\.com is none of .*: app\\.example\\.com`),
    );
    await refused(
      second({ ...app, pattern: "*.example.com" }),
      new RegExp(`${at}\\[1\\]\\.pattern`),
    );
    await refused(
      second({ ...wild, pattern: "a.b.example.com" }),
      new RegExp(`${at}\\[1\\]\\.pattern`),
    );
    await refused(
      second({ ...app, key: wild.key }),
      new RegExp(`${at}\\[1\\]\\.key: .*does not belong to the certificate`),
    );
    await refused(
      second({ ...app, key: join(folder, "none") }),
      new RegExp(`${at}\\[1\\]\\.key: .*there is no such file`),
    );
    await refused(
      second({ ...app, key: app.certificate }),
      new RegExp(`${at}\\[1\\]\\.key: .*no private key in PEM`),
    );
    await refused(
      second({ ...app, certificate: app.key }),
      new RegExp(`${at}\\[1\\]\\.certificate: .*no certificate in PEM`),
    );
    const nameless = await ca.issue("nameless", { names: ["IP:127.0.0.1"] });
    await refused(
      second({ certificate: nameless.cert, key: nameless.key }),
      new RegExp(`${at}\\[1\\]\\.certificate: .*no DNS name`),
    );
    const rubbish = join(folder, "rubbish");
    await Deno.writeFile(rubbish, crypto.getRandomValues(new Uint8Array(3000)));
    await refused(
      second({ ...app, certificate: rubbish }),
      new RegExp(`${at}\\[1\\]\\.certificate`),
    );
    await refused(second({ ...app, key: rubbish }), new RegExp(`${at}\\[1\\]\\.key`));
    await refused(
      second({ ...app, certificate: "/dev/zero" }),
      new RegExp(`${at}\\[1\\]\\.certificate: .*too long`),
    );
  });
});

Deno.test({
  name: "certificate rules: a time that is over and a key that others may read are warned of",
  ignore,
}, async () => {
  await withAuthority(async (ca) => {
    const told: string[] = [];
    const old = await issue(ca, "old", ["old.example"], EXPIRED);
    const early = await issue(ca, "early", ["early.example"], {
      notBefore: "20990101000000Z",
      notAfter: "20990201000000Z",
    });
    const open = await issue(ca, "open", ["open.example"]);
    await Deno.chmod(open.key, 0o640);
    const rules = await loadCertificates([old, early, open], (text) => told.push(text));
    assert.equal(rules.all.length, 3);
    const [first, second, third, ...more] = told;
    assert.match(first, /^conduit\.ingress\.certificates\[0\]\.certificate: .* has expired/);
    assert.match(second, /^conduit\.ingress\.certificates\[1\]\.certificate: .* not good yet/);
    assert.match(third, /^conduit\.ingress\.certificates\[2\]\.key: .* chmod 600/);
    assert.deepEqual(more, []);
  });
});

Deno.test({
  name: "certificate rules: files that change are read again; what is no good is passed over",
  ignore,
}, async () => {
  await withAuthority(async (ca) => {
    const told: string[] = [];
    const app = await issue(ca, "app", ["app.example.com"]);
    const warn = (text: string) => void told.push(text);
    // Looked at when the test asks.
    using watched = await watchCertificates([app], { warn, everyMs: 3_600_000 });
    const before = watched.rules;
    await watched.check();
    assert.equal(watched.rules, before);
    const next = await issue(ca, "next", ["app.example.com", "new.example.com"]);
    await Deno.rename(next.certificate, app.certificate);
    await watched.check();
    assert.equal(watched.rules, before);
    assert.match(
      told.join(),
      /certificates\[0\]\.key: .*does not belong.*last good .* stay in use/,
    );
    await Deno.rename(next.key, app.key);
    await watched.check();
    assert.deepEqual(watched.rules.all[0].patterns, ["app.example.com", "new.example.com"]);
    assert.equal(told.length, 1);
    await assert.rejects(
      watchCertificates([{ ...app, key: "/nowhere" }], { warn }),
      /no such file/,
    );
  });
});
