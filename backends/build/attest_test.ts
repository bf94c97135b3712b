/** Attestations: where they lie, what they say, and that they are the same for the same build. */
import assert from "node:assert/strict";
import { parseAttest } from "../../lib/api/build_attest.ts";
import { parseOutput } from "../../lib/api/build_output.ts";
import type { BuildRequest } from "../../lib/build/builder.ts";
import type { Index, Manifest } from "../../lib/oci/types.ts";
import { build, type Files } from "../../test/contract/builder_fixture.ts";
import { type EngineFixture, openNewEngine } from "../../test/contract/engine_fixture.ts";
import { requireTools } from "../../test/e2e/harness.ts";

const { ignore } = requireTools({ root: true, commands: ["runc"], files: ["/bin/busybox"] });

const FILES: Files = {
  Dockerfile: [
    "FROM base",
    "ARG TOKEN",
    "COPY status /var/lib/dpkg/status",
    "COPY package.json /app/node_modules/@scope/left-pad/",
    "RUN true",
  ].join("\n"),
  status: [
    "Package: bash\nStatus: install ok installed\nArchitecture: amd64\nVersion: 5.2.15-2+b7\n",
    "Package: gone\nStatus: deinstall ok config-files\nVersion: 1\n",
  ].join("\n"),
  "package.json": '{"name":"@scope/left-pad","version":"1.3.0","license":"MIT"}',
};

const attest = (...texts: string[]): Partial<BuildRequest> => ({
  attest: texts.flatMap((text) => parseAttest(text) ?? []),
});

const parse = <T>(bytes: Uint8Array | undefined) =>
  JSON.parse(new TextDecoder().decode(bytes)) as T;

interface Statement {
  _type: string;
  predicateType: string;
  subject: { name: string; digest: Record<string, string> }[];
  // deno-lint-ignore no-explicit-any -- documents of two other specifications
  predicate: any;
}

/** The statements about the only image. */
function statements({ images }: EngineFixture): { index: Index; found: Statement[] } {
  const index = parse<Index>(images.manifests.get("result:latest"));
  const [image, attestation] = index.manifests;
  assert.equal(index.manifests.length, 2);
  assert.deepEqual(attestation.platform, { architecture: "unknown", os: "unknown" });
  assert.deepEqual(attestation.annotations, {
    "vnd.docker.reference.digest": image.digest,
    "vnd.docker.reference.type": "attestation-manifest",
  });
  const manifest = parse<Manifest>(images.manifests.get(`result@${attestation.digest}`));
  const found = manifest.layers.map((layer) => {
    assert.equal(layer.mediaType, "application/vnd.in-toto+json");
    const statement = parse<Statement>(images.blobs.get(layer.digest));
    assert.equal(layer.annotations!["in-toto.io/predicate-type"], statement.predicateType);
    assert.deepEqual(statement.subject[0].digest, { sha256: image.digest.slice(7) });
    assert.match(statement.subject[0].name, /^pkg:docker\/result@latest\?platform=linux%2F/);
    return statement;
  });
  return { index, found };
}

const test = (name: string, fn: (fixture: EngineFixture) => Promise<void>) =>
  Deno.test({
    name: `attestations: ${name}`,
    ignore,
    fn: async () => {
      await using fixture = await openNewEngine();
      await fn(fixture);
      await fixture.assertClean();
    },
  });

test("provenance names what went in, and arguments only where all is asked for", async (fixture) => {
  const { builder, images } = fixture;
  const buildArgs = { TOKEN: "hush" };
  await build(builder, FILES, { ...attest("type=provenance"), buildArgs });
  const { found: [{ predicateType, predicate }] } = statements(fixture);
  assert.equal(predicateType, "https://slsa.dev/provenance/v1");
  const base = await images.image("base");
  const { resolvedDependencies, externalParameters } = predicate.buildDefinition;
  assert.deepEqual(resolvedDependencies.map((one: { digest: unknown }) => one.digest), [
    { sha256: base.descriptor.digest.slice(7) },
  ]);
  assert.equal(externalParameters.configSource.path, "Dockerfile");
  assert.doesNotMatch(JSON.stringify(predicate), /hush/);
  await build(builder, FILES, {
    ...attest("type=provenance,mode=max,builder-id=https://ci.example/1"),
    buildArgs,
  });
  const { found: [{ predicate: max }] } = statements(fixture);
  assert.equal(max.buildDefinition.externalParameters.request.buildArgs.TOKEN, "hush");
  assert.equal(max.buildDefinition.internalParameters.dockerfile, FILES.Dockerfile);
  assert.equal(max.runDetails.builder.id, "https://ci.example/1");
});

test("an SBOM lists the packages; the same build gives the same index", async (fixture) => {
  const { builder } = fixture;
  const request = {
    ...attest("type=sbom", "type=provenance,mode=max"),
    buildArgs: { SOURCE_DATE_EPOCH: "1700000000" },
  };
  const { result } = await build(builder, FILES, request);
  const { found: [{ predicateType, predicate }] } = statements(fixture);
  assert.equal(predicateType, "https://spdx.dev/Document");
  assert.equal(predicate.spdxVersion, "SPDX-2.3");
  assert.equal(predicate.creationInfo.created, "2023-11-14T22:13:20Z");
  const purls = predicate.packages.flatMap((
    one: { externalRefs?: { referenceLocator: string }[] },
  ) => one.externalRefs?.map(({ referenceLocator }) => referenceLocator) ?? []);
  assert.deepEqual(purls, [
    "pkg:deb/debian/bash@5.2.15-2%2Bb7?arch=amd64",
    "pkg:npm/%40scope/left-pad@1.3.0",
  ]);
  const ids = predicate.packages.map(({ SPDXID }: { SPDXID: string }) => SPDXID);
  assert.equal(new Set(ids).size, ids.length);
  const again = await build(builder, FILES, request);
  assert.equal(again.result.digest, result.digest);
  const plain = await build(builder, { Dockerfile: "FROM base\n" }, attest("type=sbom"));
  assert.equal(statements(fixture).found[0].predicate.packages.length, 1, "the base has none");
  assert.equal(plain.result.platforms!.length, 1);
});

test("docker archives have none; docker's media types have no place for them", async (fixture) => {
  const { builder } = fixture;
  const request = attest("type=provenance");
  const { result } = await build(builder, FILES, {
    ...request,
    outputs: [parseOutput("type=image"), parseOutput("type=docker")],
  });
  assert.equal(result.outputs!.length, 1);
  const outputs = [parseOutput("type=image,oci-mediatypes=false")];
  await assert.rejects(build(builder, FILES, { ...request, outputs }), {
    code: "argument_invalid",
  });
});
