/** `svc deploy` with certificates of the profile, against a server whose backend takes them. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { svcFake } from "../../test/fixtures/cli.ts";
import { hasOpenssl, makeAuthority } from "../../test/peers/pki.ts";
import { CERTIFIED_TYPE } from "../api/ingress_certificates.ts";
import { STATUS } from "../server/testing.ts";

const ignore = !hasOpenssl();

interface Sent {
  path: string;
  type: string | null;
  body: string;
}

Deno.test({
  name:
    "deploy: certificates of the profile travel with a spec that has ingress, to who takes them",
  ignore,
}, async () => {
  const folder = await Deno.makeTempDir();
  try {
    const ca = await makeAuthority(folder);
    const { cert, key } = await ca.issue("app", { names: ["DNS:app.example.com"] });
    const profile = join(folder, "config.json");
    const ingress = { certificates: [{ certificate: cert, key }] };
    await Deno.writeTextFile(
      profile,
      JSON.stringify({ "current-context": "t", contexts: { t: { conduit: { ingress } } } }),
      { mode: 0o600 },
    );
    await Deno.chmod(key, 0o644);
    const spec = async (name: string, ...hosts: string[]) => {
      const path = join(folder, `${name}.yaml`);
      const text = `name: web\nimage: app:v1\nports: ["80"]\n`;
      const block = hosts.length > 0 ? `ingress:\n  hosts: [${hosts.join(", ")}]\n` : "";
      await Deno.writeTextFile(path, text + block);
      return path;
    };
    const deploy = async (caps: string[], path: string, ...more: string[]) => {
      const sent: Sent[] = [];
      const result = await svcFake(["deploy", "-f", path, ...more], {
        env: { SVC_CONFIG: profile },
        handler: async (request, url) => {
          if (url.pathname.endsWith("/info")) {
            return Response.json({ deploy: { caps }, ingress: { enabled: true } });
          }
          const type = request.headers.get("content-type");
          sent.push({ path: url.pathname, type, body: await request.text() });
          return Response.json({ action: "created", deployment: STATUS });
        },
      });
      return { ...result, sent };
    };
    const able = ["ingressCertificates"];
    const good = await deploy(able, await spec("good", "app.example.com"));
    assert.equal(good.code, 0, good.stderr);
    assert.match(
      good.stderr,
      /^svc: warning: conduit\.ingress\.certificates\[0\]\.key: .*chmod 600/m,
    );
    assert.deepEqual(good.requests, ["GET /info", "PUT /deployments/web"]);
    const [{ type, body }] = good.sent;
    assert.equal(type, CERTIFIED_TYPE);
    const { spec: sent, certificates } = JSON.parse(body);
    assert.equal(sent.name, "web");
    assert.deepEqual(certificates, [{
      hosts: ["app.example.com"],
      certificate: await Deno.readTextFile(cert),
      key: await Deno.readTextFile(key),
    }]);
    // Nothing of the key is said to anybody else.
    const line = (await Deno.readTextFile(key)).split("\n")[1];
    assert.ok(!`${good.stdout}${good.stderr}`.includes(line));

    const far = await deploy(able, await spec("far", "app.example.com", "far.example"));
    assert.equal(far.code, 2);
    assert.match(
      far.stderr,
      /ingress host far\.example matches none of the rules: app\.example\.com/,
    );
    assert.deepEqual(far.requests, ["GET /info"]);

    // As it was: a spec of no cluster's ingress goes as the file has it.
    const bare = await deploy(["exec"], join(folder, "good.yaml"));
    assert.deepEqual(bare.requests, [
      "GET /info",
      "POST /deployments?source=" + encodeURIComponent(join(folder, "good.yaml")),
    ]);
    assert.equal(bare.sent[0].type, "application/yaml");
    const plain = await deploy(able, await spec("plain"), "--name", "other");
    assert.deepEqual(plain.requests, ["PUT /deployments/other"]);
    assert.equal(plain.sent[0].type, "application/json");
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
