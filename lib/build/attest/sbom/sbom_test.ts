import assert from "node:assert/strict";
import { dirname } from "node:path";
import { parseAttest, parseAttestFlag } from "../../../api/build_attest.ts";
import { scan, spdxDocument } from "./spdx.ts";
import { openTree } from "./tree.ts";

async function scanned(files: Record<string, string>, links: Record<string, string> = {}) {
  const root = await Deno.makeTempDir({ prefix: "svc-sbom-" });
  try {
    for (const [path, text] of Object.entries(files)) {
      await Deno.mkdir(dirname(`${root}${path}`), { recursive: true });
      await Deno.writeTextFile(`${root}${path}`, text);
    }
    for (const [path, target] of Object.entries(links)) {
      await Deno.symlink(target, `${root}${path}`);
    }
    return await scan(openTree(root), new AbortController().signal);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

Deno.test("packages of each kind of record, with their package URLs", async () => {
  const debian = await scanned({
    "/etc/os-release": 'ID=debian\nVERSION_ID="12"\n',
    "/var/lib/dpkg/status.d/base":
      "Package: base-files\nVersion: 12.4+deb12u5\nArchitecture: all\n",
    "/var/lib/dpkg/status.d/base.md5sums": "Package: no\nVersion: 1\n",
    "/usr/lib/python3/dist-packages/Flask_Cors-4.0.dist-info/METADATA":
      "Metadata-Version: 2.1\nName: Flask_Cors\nVersion: 4.0\nLicense: MIT\n\nName: other\n",
    "/app/node_modules/a/package.json": '{"name":"a","version":"1.0.0"}',
    "/app/node_modules/a/test/package.json": '{"name":"fixture","version":"9"}',
    "/app/node_modules/broken/package.json": "{",
    "/app/package.json": '{"name":"app","version":"0"}',
    "/proc/node_modules/b/package.json": '{"name":"b","version":"1"}',
  });
  assert.deepEqual(debian.map(({ purl }) => purl), [
    "pkg:deb/debian/base-files@12.4%2Bdeb12u5?arch=all&distro=debian-12",
    "pkg:npm/a@1.0.0",
    "pkg:pypi/flask-cors@4.0",
  ]);
  const alpine = await scanned({
    "/etc/os-release": "ID=alpine\nVERSION_ID=3.19.1\n",
    "/usr/lib/apk/db/installed": "P:musl\nV:1.2.4-r4\nA:x86_64\nL:MIT\n\nP:broken\n\n",
  }, { "/lib": "usr/lib" });
  assert.deepEqual(alpine, [{
    name: "musl",
    version: "1.2.4-r4",
    purl: "pkg:apk/alpine/musl@1.2.4-r4?arch=x86_64&distro=alpine-3.19.1",
    source: "/lib/apk/db/installed",
    license: "MIT",
  }]);
});

Deno.test("links out of the tree lead nowhere; the document is the same for the same packages", async () => {
  const secret = await Deno.makeTempFile();
  await Deno.writeTextFile(secret, "Package: host\nVersion: 1\nStatus: install ok installed\n");
  try {
    assert.deepEqual(
      await scanned({ "/var/lib/dpkg/x": "" }, { "/var/lib/dpkg/status": secret }),
      [],
    );
  } finally {
    await Deno.remove(secret);
  }
  const packages = await scanned({
    "/n/node_modules/@s/p/package.json": '{"name":"@s/p","version":"2"}',
  });
  const of = (created: number) => spdxDocument(packages, { name: "i", created, tool: "svc-1" });
  assert.deepEqual(of(5), of(5));
  assert.notEqual(of(5).documentNamespace, of(6).documentNamespace);
});

Deno.test("attestations as they are asked for", () => {
  assert.deepEqual(parseAttestFlag("provenance", "mode=max"), { type: "provenance", mode: "max" });
  assert.equal(parseAttestFlag("sbom", "false"), undefined);
  assert.equal(parseAttest("type=provenance,disabled=true"), undefined);
  for (
    const text of ["type=vex", "type=sbom,generator=x", "type=provenance,mode=all", "type=sbom,x=1"]
  ) {
    assert.throws(() => parseAttest(text), { code: "argument_invalid" }, text);
  }
});
