/** Provenance of what ADD, named contexts and the context itself took from URLs and git. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { parseAttest } from "../../lib/api/build_attest.ts";
import type { BuildRequest } from "../../lib/build/builder.ts";
import type { Index, Manifest } from "../../lib/oci/types.ts";
import { writeTar } from "../../lib/oci/tar_write.ts";
import { build, type Files } from "../../test/contract/builder_fixture.ts";
import { type EngineFixture, openNewEngine } from "../../test/contract/engine_fixture.ts";
import { requireTools } from "../../test/e2e/harness.ts";
import { startServers } from "../../test/golden/buildkit/servers.ts";

const { ignore } = requireTools({
  root: true,
  commands: ["runc", "git"],
  files: ["/bin/busybox"],
});

const sha256 = (body: string | Uint8Array) => createHash("sha256").update(body).digest("hex");

interface Definition {
  externalParameters: { configSource: Record<string, unknown> };
  resolvedDependencies: { uri: string; digest: Record<string, string> }[];
}

async function provenanceOf(
  { builder, images }: EngineFixture,
  files: Files,
  request: Partial<BuildRequest> = {},
): Promise<Definition> {
  const attest = [parseAttest("type=provenance")!];
  await build(builder, files, { ...request, attest });
  const parse = (bytes: Uint8Array | undefined) => JSON.parse(new TextDecoder().decode(bytes));
  const index: Index = parse(images.manifests.get("result:latest"));
  const manifest: Manifest = parse(images.manifests.get(`result@${index.manifests[1].digest}`));
  return parse(images.blobs.get(manifest.layers[0].digest)).predicate.buildDefinition;
}

/** Without the base image. */
const fetched = ({ resolvedDependencies }: Definition) =>
  resolvedDependencies.filter(({ uri }) => !uri.startsWith("pkg:docker/"));

Deno.test({
  name: "provenance: URLs and repositories with their digests, from the cache too",
  ignore,
  fn: async () => {
    await using fixture = await openNewEngine();
    await using servers = await startServers(join(fixture.folder, "served"));
    const body = new TextEncoder().encode("FROM base\nCOPY f /f\n");
    const archive = await new Response(writeTar([
      { path: "Dockerfile", type: "file", size: body.length, body },
      { path: "f", type: "file", size: body.length, body },
    ])).bytes();
    const { contexts, dockerfile } = servers.fill({
      name: "provenance",
      dockerfile: [
        "FROM base AS main",
        "ADD {{http}}/f /f",
        "ADD --checksum=sha256:{{sha256:sum}} {{http}}/sum /sum",
        "ADD {{git}} /git",
        "ADD {{git}}#{{commit}} /commit",
        "COPY --from=site in /in",
        "FROM base AS other",
        "ADD {{http}}/unused /unused",
        "FROM main",
      ].join("\n"),
      contexts: {
        at: "{{http}}/",
        commit: "{{commit}}",
        git: "{{git}}",
        site: "{{http}}/site.tar",
      },
      serve: {
        "/f": "text",
        "/sum": "sum",
        "/context.tar": archive,
        "/site.tar": await new Response(writeTar([
          { path: "in", type: "file", size: body.length, body },
        ])).bytes(),
      },
    });
    const at = (name: string) => `${contexts!.at}${name}`;
    const { commit, git, site } = contexts as Record<string, string>;
    const named = { contexts: { site: { kind: "url" as const, url: site } } };
    const first = await provenanceOf(fixture, { Dockerfile: dockerfile }, named);
    const deps = fetched(first);
    const wanted = [
      { uri: at("f"), digest: { sha256: sha256("text") } },
      { uri: at("sum"), digest: { sha256: sha256("sum") } },
      { uri: git, digest: { sha1: commit } },
      { uri: `${git}#${commit}`, digest: { sha1: commit } },
    ];
    for (const one of wanted) assert.deepEqual(deps.find(({ uri }) => uri === one.uri), one);
    assert.match(deps.find(({ uri }) => uri === site)!.digest.sha256, /^[0-9a-f]{64}$/);
    assert.equal(deps.length, wanted.length + 1);
    const again = await provenanceOf(fixture, { Dockerfile: dockerfile }, named);
    assert.deepEqual(again.resolvedDependencies, first.resolvedDependencies);

    // A password is not part of the address.
    const url = at("context.tar").replace("http://", "http://user:hush@");
    const remote = await provenanceOf(fixture, {}, { contextUrl: url });
    const source = { uri: at("context.tar"), digest: { sha256: sha256(archive) } };
    assert.deepEqual(remote.externalParameters.configSource, { ...source, path: "Dockerfile" });
    assert.deepEqual(fetched(remote), [source]);
    await fixture.assertClean();
  },
});
