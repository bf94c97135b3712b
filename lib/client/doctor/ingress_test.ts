import assert from "node:assert/strict";
import { join } from "node:path";
import { EXPIRED, hasOpenssl, makeAuthority } from "../../../test/peers/pki.ts";
import type { Context } from "../profile/types.ts";
import type { Target, Transport } from "../resolve.ts";
import { ingressChecks } from "./ingress.ts";

const DIRECT: Transport = { kind: "direct" };

type Ingress = NonNullable<Context["conduit"]>["ingress"];

function checks(ingress: Ingress, transport = DIRECT, profilePath = "/home/me/config.yaml") {
  const settings = { conduit: { ingress } };
  return ingressChecks({ settings, transport, profilePath } as unknown as Target);
}

/** "outcome name: detail" of each. */
async function lines(...args: Parameters<typeof checks>): Promise<string[]> {
  return (await checks(...args)).map(({ outcome, name, detail }) =>
    `${outcome} ${name}: ${detail}`
  );
}

Deno.test("doctor: ingress of the profile, where it has one", async () => {
  assert.deepEqual(await lines(undefined), []);
  assert.deepEqual(await lines({ mode: "off" }), []);
  const [emulated, ...none] = await lines({ mode: "emulate" });
  assert.match(emulated, /^ok ingress of sessions: emulated; .*authority, kept in .*ingress-ca$/);
  assert.deepEqual(none, []);
  assert.match((await lines({ mode: "native" }))[0], /^failed ingress .*without a cluster/);
  const kube: Transport = { kind: "kube", settings: { service: "svc", "remote-port": 80 } };
  assert.match((await lines({ mode: "native" }, kube))[0], /^ok ingress of sessions: native/);
  const files = { "ca-file": "/nowhere", "ca-key-file": "/nowhere" };
  const [{ outcome, help }] = await checks({ mode: "emulate", ...files });
  assert.deepEqual([outcome, typeof help], ["failed", "string"]);
});

Deno.test(
  { name: "doctor: ingress certificates, good, old and bad", ignore: !hasOpenssl() },
  async () => {
    const folder = await Deno.makeTempDir();
    try {
      const ca = await makeAuthority(folder);
      const issue = async (name: string, dates = {}) => {
        const { cert, key } = await ca.issue(name, { names: [`DNS:${name}.test`], ...dates });
        await Deno.chmod(key, 0o600);
        return { certificate: cert, key };
      };
      const good = await issue("good");
      const old = await issue("old", EXPIRED);
      const [ok, warning, ...none] = await lines({ certificates: [good, old] });
      assert.equal(ok, "ok ingress certificates: good.test, old.test");
      assert.match(warning, /^warning ingress certificates: .*certificates\[1\].* has expired/);
      assert.deepEqual(none, []);
      const bad = await lines({ certificates: [good, { ...good, key: join(folder, "none") }] });
      assert.match(
        bad[0],
        /^failed ingress certificates: .*certificates\[1\]\.key: .*no such file/,
      );
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
);
