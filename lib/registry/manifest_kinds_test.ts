/** What there is to push: images, indexes, artifacts; of OCI, of docker, and with media types of one's own. */
import assert from "node:assert/strict";
import { digestOf } from "../oci/digest.ts";
import { type Descriptor, type Index, MEDIA } from "../oci/types.ts";
import { bytesOf, digest, failure, registry } from "./fixture_test.ts";

type Registry = ReturnType<typeof registry>;

const EMPTY = "{}";
const absent = (mediaType: string, text = "elsewhere"): Descriptor => ({
  mediaType,
  digest: digest(text),
  size: text.length,
});

async function blob(r: Registry, mediaType: string, text: string): Promise<Descriptor> {
  return { ...await r.pushBlob("a", text), mediaType };
}

interface Kind {
  mediaType: string;
  document: (r: Registry) => Promise<Record<string, unknown>>;
  /** Says its type itself. */
  own?: boolean;
}

const FOREIGN = "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip";

const KINDS: Record<string, Kind> = {
  "an OCI image": {
    mediaType: MEDIA.manifest,
    document: async (r) => ({
      config: await blob(r, MEDIA.config, "config"),
      layers: [await blob(r, MEDIA.layerGzip, "layer"), await blob(r, MEDIA.layerZstd, "zstd")],
    }),
  },
  "an OCI image that does not say so": {
    mediaType: MEDIA.manifest,
    own: false,
    document: async (r) => ({ config: await blob(r, MEDIA.config, "config"), layers: [] }),
  },
  "a docker image": {
    mediaType: MEDIA.dockerManifest,
    document: async (r) => ({
      config: await blob(r, MEDIA.dockerConfig, "config"),
      layers: [await blob(r, MEDIA.dockerLayerGzip, "layer")],
    }),
  },
  "a docker image with a foreign layer": {
    mediaType: MEDIA.dockerManifest,
    document: async (r) => ({
      config: await blob(r, MEDIA.dockerConfig, "config"),
      layers: [{ ...absent(MEDIA.dockerForeignLayerGzip), urls: ["https://layers.example/x"] }],
    }),
  },
  "an OCI image with a layer that is not distributed": {
    mediaType: MEDIA.manifest,
    document: async (r) => ({
      config: await blob(r, MEDIA.config, "config"),
      layers: [absent(FOREIGN), await blob(r, MEDIA.layerGzip, "layer")],
    }),
  },
  "an artifact": {
    mediaType: MEDIA.manifest,
    document: async (r) => ({
      artifactType: "application/vnd.example.thing",
      config: { ...await blob(r, MEDIA.empty, EMPTY), data: btoa(EMPTY) },
      layers: [await blob(r, "application/vnd.example.part; charset=x", "part")],
      annotations: { "org.example.note": "one", empty: "" },
    }),
  },
  "an artifact of nothing": {
    mediaType: MEDIA.manifest,
    document: async (r) => ({
      artifactType: "application/vnd.example.thing",
      config: await blob(r, MEDIA.empty, EMPTY),
      layers: [await blob(r, MEDIA.empty, EMPTY)],
    }),
  },
  "a config with a media type of its own": {
    mediaType: MEDIA.manifest,
    document: async (r) => ({
      config: await blob(r, "application/vnd.example.config.v9+json", "{}"),
      layers: [await blob(r, "text/x-anything", "text")],
    }),
  },
  "an empty layer": {
    mediaType: MEDIA.manifest,
    document: async (r) => ({
      config: await blob(r, MEDIA.config, "config"),
      layers: [await blob(r, MEDIA.layerTar, "")],
    }),
  },
  "fields that nobody knows": {
    mediaType: MEDIA.manifest,
    document: async (r) => ({
      config: await blob(r, MEDIA.config, "config"),
      layers: [],
      "x-future": { deep: [1, { a: null }] },
    }),
  },
  "an OCI index": {
    mediaType: MEDIA.index,
    document: async (r) => ({ manifests: [await child(r, MEDIA.manifest)] }),
  },
  "a docker manifest list": {
    mediaType: MEDIA.dockerList,
    document: async (r) => ({
      manifests: [{
        ...await child(r, MEDIA.dockerManifest),
        platform: { os: "linux", architecture: "arm", variant: "v7" },
      }],
    }),
  },
  "an index of nothing": {
    mediaType: MEDIA.index,
    document: () => Promise.resolve({ manifests: [] }),
  },
  "an index of indexes and blobs": {
    mediaType: MEDIA.index,
    document: async (r) => {
      const inner = JSON.stringify({
        schemaVersion: 2,
        mediaType: MEDIA.index,
        manifests: [await child(r, MEDIA.manifest)],
      });
      await put(r, digest(inner), inner, MEDIA.index);
      return {
        manifests: [
          { mediaType: MEDIA.index, digest: digest(inner), size: inner.length },
          await blob(r, "application/vnd.example.blob", "a blob in an index"),
        ],
      };
    },
  },
};

const put = (r: Registry, reference: string, body: string, mediaType: string) =>
  r.send("PUT", `/v2/a/manifests/${reference}`, { body, headers: { "content-type": mediaType } });

async function child(r: Registry, mediaType: string): Promise<Descriptor> {
  const text = await r.image("a", mediaType, { mediaType });
  assert.equal((await put(r, digest(text), text, mediaType)).status, 201);
  return { mediaType, digest: digest(text), size: bytesOf(text).length };
}

for (const [name, { mediaType, document, own = true }] of Object.entries(KINDS)) {
  Deno.test(`${name} is pushed, read, listed, and deleted`, async () => {
    for (const algorithm of ["sha256", "sha512"] as const) {
      const r = registry();
      const subject = absent(MEDIA.manifest, "a subject");
      const text = JSON.stringify({
        schemaVersion: 2,
        ...own && { mediaType },
        ...await document(r),
        subject,
      });
      const own512 = digestOf(bytesOf(text), algorithm);
      const pushed = await put(r, `${own512}?tag=v1`, text, mediaType);
      assert.equal(pushed.status, 201, await pushed.text());
      assert.equal(pushed.headers.get("location"), `/v2/a/manifests/${own512}`);
      assert.equal(pushed.headers.get("docker-content-digest"), own512);
      assert.equal(pushed.headers.get("oci-subject"), subject.digest);
      assert.equal(pushed.headers.get("oci-tag"), "v1");
      for (const reference of ["v1", own512]) {
        for (const method of ["GET", "HEAD"]) {
          const accept = method === "GET" ? "text/plain" : mediaType;
          const response = await r.send(method, `/v2/a/manifests/${reference}`, {
            headers: { accept },
          });
          assert.equal(response.status, 200);
          assert.equal(response.headers.get("content-type"), mediaType);
          assert.equal(response.headers.get("content-length"), String(bytesOf(text).length));
          assert.equal(response.headers.get("docker-content-digest"), own512);
          assert.equal(await response.text(), method === "GET" ? text : "");
        }
      }
      const referrers = await r.send("GET", `/v2/a/referrers/${subject.digest}`);
      const { manifests } = await referrers.json() as Index;
      assert.deepEqual(manifests.map((item) => [item.digest, item.mediaType, item.size]), [
        [own512, mediaType, bytesOf(text).length],
      ]);
      const { artifactType, config, annotations } = JSON.parse(text);
      assert.equal(manifests[0].artifactType, artifactType ?? config?.mediaType);
      assert.deepEqual(manifests[0].annotations, annotations);
      assert.equal((await r.send("DELETE", `/v2/a/manifests/${own512}`)).status, 202);
      assert.equal((await r.send("GET", "/v2/a/manifests/v1")).status, 404);
    }
  });
}

Deno.test("a manifest's subject may come by any digest, before it or after", async () => {
  const r = registry();
  const base = await r.image("a", "base");
  for (const algorithm of ["sha256", "sha512"] as const) {
    const subject = {
      mediaType: MEDIA.manifest,
      digest: digestOf(bytesOf(base), algorithm),
      size: base.length,
    };
    const text = await r.image("a", `signature ${algorithm}`, { subject });
    assert.equal((await r.pushManifest("a", digest(text), text)).status, 201);
    assert.equal((await put(r, subject.digest, base, MEDIA.manifest)).status, 201);
    const response = await r.send("GET", `/v2/a/referrers/${subject.digest}`);
    const { manifests } = await response.json() as Index;
    assert.deepEqual(manifests.map((item) => item.digest), [digest(text)]);
  }
});

Deno.test("several tags at once: each once, none of them where one is bad", async () => {
  const r = registry();
  const text = await r.image("a", "x");
  const tags = async () => (await (await r.send("GET", "/v2/a/tags/list")).json()).tags;
  const many = Array.from({ length: 100 }, (_, n) => `t${String(n).padStart(2, "0")}`);
  const query = (names: string[]) => `?${names.map((name) => `tag=${name}`).join("&")}`;
  const cases: [reference: string, names: string[], status: string, listed: string[]][] = [
    ["v1", ["v1", "v2", "v2"], "201", ["v1", "v2"]],
    [digest(text), ["b", "a"], "201", ["a", "b"]],
    ["v1", [...many.slice(1), "-bad"], "400 MANIFEST_INVALID", []],
    ["v1", [""], "400 MANIFEST_INVALID", []],
    [digest(text), many, "201", many],
    [digest(text), [...many, "t100"], "414 UNSUPPORTED", []],
  ];
  for (const [reference, names, status, listed] of cases) {
    const response = await r.pushManifest("a", reference, text, query(names));
    const what = `${reference} ${names.slice(0, 3)}`;
    assert.equal(response.status === 201 ? "201" : await failure(response), status, what);
    if (response.status === 201) {
      assert.deepEqual(await tags(), listed, what);
      assert.equal(response.headers.get("oci-tag"), [...new Set(names)].join(", "), what);
      await r.send("DELETE", `/v2/a/manifests/${digest(text)}`);
    } else assert.equal((await r.send("HEAD", "/v2/a/manifests/v1")).status, 404, what);
  }
});
