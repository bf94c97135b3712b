/** What every RegistryReader must do; see lib/registry/view.ts. */
import assert from "node:assert/strict";
import { digestOf } from "../../lib/oci/digest.ts";
import { type Descriptor, type Digest, MEDIA } from "../../lib/oci/types.ts";
import type { RegistryReader } from "../../lib/registry/view.ts";

const encode = (text: string) => new TextEncoder().encode(text);
const digest = (text: string) => digestOf(encode(text));

/** What the reader has to show: an implementation fills in whatever it reads from. */
export interface ReaderContent {
  blobs: string[];
  manifests: { repository: string; tags: string[]; text: string }[];
}

const LAYER = "0123456789 the only layer";
const CONFIG = '{"rootfs":{"type":"layers","diff_ids":[]}}';

function manifest(annotation: string, subject?: string): string {
  const descriptor = (text: string, mediaType: string): Descriptor => ({
    mediaType,
    digest: digest(text),
    size: encode(text).length,
  });
  return JSON.stringify({
    schemaVersion: 2,
    mediaType: MEDIA.manifest,
    ...subject && { artifactType: "application/x-note" },
    config: descriptor(CONFIG, MEDIA.config),
    layers: [descriptor(LAYER, MEDIA.layerTar)],
    ...subject && { subject: descriptor(subject, MEDIA.manifest) },
    annotations: { of: annotation },
  });
}

const ONE = manifest("one");
const TWO = manifest("two");
const NOTES = ["a", "b", "c", "d"].map((name) => manifest(name, ONE));

/** In pairs of content that a union's two halves can share out. */
export const CONTENT: ReaderContent = {
  blobs: [LAYER, CONFIG],
  manifests: [
    { repository: "app", tags: ["v1", "v3"], text: ONE },
    { repository: "app", tags: ["v2", "latest"], text: TWO },
    ...NOTES.map((text) => ({ repository: "app", tags: [], text })),
    { repository: "team/tool", tags: ["v1"], text: ONE },
    { repository: "z", tags: ["v1"], text: TWO },
  ],
};

export interface ReaderUnderTest extends AsyncDisposable {
  reader: RegistryReader;
}

export interface ReaderContract {
  name: string;
  /** A reader of {@linkcode CONTENT}. */
  open: () => Promise<ReaderUnderTest>;
  /** Why it does not list repositories. */
  noCatalog?: string;
}

export function registryReaderContract({ name, open, noCatalog }: ReaderContract): void {
  const test = (title: string, body: (reader: RegistryReader) => Promise<void>, ignore = false) =>
    Deno.test({ name: `${name}: ${title}`, ignore }, async () => {
      await using under = await open();
      await body(under.reader);
    });

  test("manifests by tag and by digest, byte for byte", async (reader) => {
    for (const { repository, tags, text } of CONTENT.manifests) {
      for (const reference of [...tags, digest(text)]) {
        const found = await reader.resolve(repository, reference);
        assert.equal(new TextDecoder().decode(found?.bytes), text, `${repository} ${reference}`);
        assert.deepEqual(found!.descriptor, {
          ...found!.descriptor,
          digest: digest(text),
          mediaType: MEDIA.manifest,
          size: encode(text).length,
        });
      }
    }
  });

  test("what is not there is undefined, whatever asks for it", async (reader) => {
    for (const probe of [false, true]) {
      assert.equal(await reader.resolve("app", "v9", { probe }), undefined);
      assert.equal(await reader.resolve("app", digest("none"), { probe }), undefined);
      assert.equal(await reader.resolve("none", "v1", { probe }), undefined);
      assert.equal(await reader.stat("app", digest("none"), { probe }), undefined);
    }
    assert.equal(await reader.get("app", digest("none")), undefined);
    assert.equal(await reader.hasRepository("none"), false);
    assert.deepEqual(await Array.fromAsync(reader.tags("none")), []);
    assert.deepEqual(await Array.fromAsync(reader.referrers("app", digest("none"))), []);
  });

  test("blobs, whole and in ranges", async (reader) => {
    const text = async (range?: { start: number; end?: number }) => {
      const body = await reader.get("app", digest(LAYER), range && { range });
      const text = await new Response(body!.stream() as BodyInit).text();
      assert.equal(body!.size, text.length);
      return text;
    };
    const size = LAYER.length;
    assert.deepEqual(await reader.stat("app", digest(LAYER)), { size });
    assert.deepEqual(await reader.stat("app", digest(LAYER), { probe: true }), { size });
    assert.equal(await text(), LAYER);
    assert.equal(await text({ start: 0, end: 0 }), "0");
    assert.equal(await text({ start: 3, end: 6 }), "3456");
    assert.equal(await text({ start: size - 5, end: size - 1 }), LAYER.slice(-5));
    assert.equal(await text({ start: 11 }), LAYER.slice(11));
  });

  test("tags in byte order, each once, after a name", async (reader) => {
    const tags = (after?: string) => Array.fromAsync(reader.tags("app", { after }));
    assert.deepEqual(await tags(), ["latest", "v1", "v2", "v3"]);
    assert.deepEqual(await tags("v1"), ["v2", "v3"]);
    assert.deepEqual(await tags("m"), ["v1", "v2", "v3"]);
    assert.deepEqual(await tags("v3"), []);
    assert.equal(await reader.hasRepository("app"), true);
  });

  test("referrers in byte order of their digests, each once", async (reader) => {
    const wanted = NOTES.map(digest).sort();
    const found = async (after?: Digest) =>
      (await Array.fromAsync(reader.referrers("app", digest(ONE), { after })))
        .map(({ digest }) => digest);
    assert.deepEqual(await found(), wanted);
    assert.deepEqual(await found(wanted[1]), wanted.slice(2));
    const [first] = await Array.fromAsync(reader.referrers("app", digest(ONE)));
    assert.equal(first.artifactType, "application/x-note");
  });

  const catalog = "repositories in byte order, each once, after a name";
  test(noCatalog ? `${catalog} (${noCatalog})` : catalog, async (reader) => {
    const names = (after?: string) => Array.fromAsync(reader.repositories({ after }));
    assert.deepEqual(await names(), ["app", "team/tool", "z"]);
    assert.deepEqual(await names("app"), ["team/tool", "z"]);
    assert.deepEqual(await names("y"), ["z"]);
  }, noCatalog !== undefined);
}
