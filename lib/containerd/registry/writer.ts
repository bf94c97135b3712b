/** Pushes into containerd: blobs become content; a manifest becomes content, and an image by its name. */
import { SvcError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { type DigestAlgorithm, parseDigest } from "../../oci/digest.ts";
import type { ImageSink } from "../../oci/image.ts";
import { isTag, parseReference } from "../../oci/reference.ts";
import type { Digest } from "../../oci/types.ts";
import type { EngineWriter } from "../../store/engine_writer.ts";
import { Gate } from "../../store/gate.ts";
import type { CallOptions } from "../../store/object_store.ts";
import { checked, type Publication, type PublishOptions } from "../../store/publication.ts";
import { checkReferences } from "../../store/references.ts";
import type { Upload } from "../../store/upload.ts";
import { Uploads } from "../../store/uploads.ts";
import type { ContainerdClient } from "../client.ts";
import type { ContainerdContent } from "../content.ts";
import type { GarbageCollection } from "../garbage.ts";
import { type ImageMessage, Images } from "../image_api.ts";
import { nameImage, storeManifest } from "../images.ts";
import { REGISTRY_OWNER, SUBJECT } from "../labels.ts";
import { orMissing } from "../writing.ts";
import { Ingests } from "./ingests.ts";
import type { StoredManifests } from "./manifests.ts";
import { inAnyRegistry, placeOf } from "./names.ts";
import type { PushLeases } from "./push_leases.ts";
import { type ImageReader, repositoriesOf } from "./reader.ts";

export interface ImageWriterOptions {
  client: ContainerdClient;
  content: ContainerdContent;
  manifests: StoredManifests;
  reader: ImageReader;
  leases: PushLeases;
  garbage: GarbageCollection;
  /** Marks this server's images. */
  owner: string;
  log: Logger;
  /** Tags and digests of one repository; {@linkcode MAX_NAMES} where absent. */
  maxNames?: number;
}

/** Of one repository: with the longest names that is half of what containerd lists at once (16 MiB). */
const MAX_NAMES = 10_000;

type PublishInto = PublishOptions & { name: string };

/** Throws `digest_invalid`: containerd has no other algorithm. */
function refuseOthers(algorithm: DigestAlgorithm | undefined): void {
  if (algorithm !== "sha512") return;
  throw new SvcError(
    "digest_invalid",
    "Cannot store a sha512 digest: containerd keeps sha256 alone",
    {
      help: "push it with a sha256 digest",
    },
  );
}

export class ImageWriter implements EngineWriter, AsyncDisposable {
  readonly #options: ImageWriterOptions;
  readonly #uploads: Uploads;
  /** Publications run shared, removals exclusive. */
  readonly #gate = new Gate();
  #releasing: Promise<unknown> = Promise.resolve();

  constructor(options: ImageWriterOptions) {
    this.#options = options;
    const { client, owner, leases } = options;
    const under = leases.under.bind(leases);
    this.#uploads = new Uploads({ uploads: new Ingests({ client, owner, under }) });
  }

  async startUpload(...[repository, options]: Parameters<EngineWriter["startUpload"]>) {
    refuseOthers(options?.algorithm);
    return this.#leased(await this.#uploads.start(repository, options));
  }

  async openUpload(...call: Parameters<EngineWriter["openUpload"]>) {
    const upload = await this.#uploads.open(...call);
    return upload && this.#leased(upload);
  }

  async hold(repository: string, digest: Digest, { signal }: CallOptions = {}) {
    if (parseDigest(digest).algorithm !== "sha256") return undefined;
    const info = await this.#options.leases.hold(repository, digest, signal);
    return info && { size: info.size };
  }

  async putBlob(...[repository, wanted, body, options = {}]: Parameters<ImageSink["putBlob"]>) {
    const { content, leases } = this.#options;
    const { signal } = options;
    refuseOthers(parseDigest(wanted.digest).algorithm);
    let read = false;
    const open = () => {
      read = true;
      return Promise.resolve(body);
    };
    try {
      await leases.under((lease) =>
        content.write(wanted, { open, ranges: false }, { lease, signal })
      );
    } finally {
      if (!read) await body.cancel();
    }
    await this.#acknowledged(repository, wanted.digest, signal);
  }

  async publish(
    repository: string,
    mediaType: string | undefined,
    bytes: Uint8Array,
    options: PublishInto,
  ) {
    const { name, digest: promised } = options;
    refuseOthers(promised === undefined ? undefined : parseDigest(promised).algorithm);
    const publication = checked(repository, mediaType, bytes, options);
    const { descriptor, manifest: { subject }, record } = publication;
    // A repository's name may be too long together with its registry's.
    parseReference(name);
    await this.#gate.shared(() => this.#write(publication, options));
    this.#release(repository, [...record.references, descriptor.digest]);
    return { descriptor, ...(subject && { subject: subject.digest }) };
  }

  async deleteManifest(name: string, reference: string, { signal }: CallOptions = {}) {
    const { reader, garbage } = this.#options;
    const wanted = async () => {
      if (!isTag(reference)) {
        return (await reader.under(name, signal)).filter(({ target }) =>
          target.digest === reference
        );
      }
      const found = await reader.image(`${name}:${reference}`, signal);
      return found ? [found] : [];
    };
    // Alone: a push must not move a name between the look at it and its removal.
    const gone = await this.#gate.exclusive(async () => {
      const images = await wanted();
      const own = images.filter((image) => this.#isOwn(image));
      for (const image of own) await this.#remove(image.name);
      if (own.length > 0) return true;
      if (images.length > 0) throw this.#foreign(images[0].name);
      if (isTag(reference) || !await reader.resolve(name, reference, { signal })) return false;
      throw new SvcError(
        "blob_in_use",
        `Cannot delete ${reference}: it is a part of an index of ${name}`,
        { help: "delete the index" },
      );
    });
    await this.#releasing;
    if (gone) garbage.collect();
    return gone;
  }

  async deleteBlob(_repository: string, digest: Digest, { signal }: CallOptions = {}) {
    const { content, leases, garbage } = this.#options;
    if (parseDigest(digest).algorithm !== "sha256") return false;
    return await this.#gate.exclusive(async () => {
      if (!await content.info(digest, { signal })) return false;
      await this.#releasing;
      await leases.end(digest);
      // containerd knows what an image uses; nobody else has to look through them all.
      garbage.collect();
      await garbage.settled();
      if (!await content.info(digest)) return true;
      throw new SvcError(
        "blob_in_use",
        `Cannot delete blob ${digest}: an image uses it, another program of this host, or another server`,
      );
    });
  }

  async names(
    { repository, tag, signal }: CallOptions & { repository?: string; tag?: string } = {},
  ) {
    const filter = repository === undefined ? undefined : inAnyRegistry(repository, tag);
    const images = await this.#options.reader.list(filter, signal);
    const pushed = new Set(repositoriesOf(images.filter((image) => this.#isOwn(image))));
    return repositoriesOf(images).map((name) => ({ name, pushed: pushed.has(name) }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#uploads.close();
    await this.#releasing;
  }

  /** Nobody waits for this: what is not let go of now goes when its lease ends. */
  #release(repository: string, digests: readonly Digest[]): void {
    const { leases, log } = this.#options;
    const done = leases.release(repository, digests).catch((error) =>
      log.warn("containerd keeps what was pushed for a day", { error })
    );
    this.#releasing = Promise.all([this.#releasing, done]);
  }

  /** An upload whose blob stays for the manifest that is to come. */
  #leased(upload: Upload): Upload {
    const { leases } = this.#options;
    return {
      id: upload.id,
      repository: upload.repository,
      get offset() {
        return upload.offset;
      },
      append: (body, call) => upload.append(body, call),
      commit: async (digest, call) => {
        refuseOthers(parseDigest(digest).algorithm);
        // Before: containerd takes no lease for a blob that it has already.
        await leases.keep(digest, call?.signal);
        const done = await upload.commit(digest, call);
        await this.#acknowledged(upload.repository, digest, call?.signal);
        return done;
      },
      abort: () => upload.abort(),
    };
  }

  /** Before a client hears that a blob is stored: it is durable, and stays for a push. */
  async #acknowledged(repository: string, digest: Digest, signal?: AbortSignal): Promise<void> {
    const { content, leases } = this.#options;
    await content.sync();
    if (await leases.hold(repository, digest, signal)) return;
    throw new SvcError(
      "unavailable",
      `Cannot store blob ${digest}: it was removed in the meantime`,
    );
  }

  async #write(
    { manifest, bytes, digest, descriptor }: Publication,
    { name, tags = [], sparse, signal }: PublishInto,
  ): Promise<void> {
    const { client, content, leases, manifests, owner } = this.#options;
    const lookup = async (wanted: Digest) =>
      parseDigest(wanted).algorithm === "sha256" ? await leases.keep(wanted, signal) : undefined;
    const names = tags.map((tag) => `${name}:${tag}`);
    // A referrer stays one when its tag moves on.
    if (tags.length === 0 || manifest.subject) names.push(`${name}@${digest}`);
    await this.#checkRoom(name, names, signal);
    await manifests.checkIndex(manifest, signal);
    await checkReferences(manifest, {
      ...{ blob: lookup, sparse },
      manifest: async (digest) => await lookup(digest) !== undefined,
    });
    await leases.keep(digest, signal);
    await leases.under((lease) =>
      storeManifest({ client, content }, descriptor, bytes, { lease, signal })
    );
    await content.sync();
    const { subject } = manifest;
    const labels = { [REGISTRY_OWNER]: owner, [SUBJECT]: subject?.digest ?? "" };
    for (const name of names) {
      await nameImage(client, { name, labels, target: descriptor }, { signal });
    }
    await this.#dropParts(name, manifest.manifests.map((child) => child.digest), signal);
  }

  /** containerd lists a repository in one message, which has a limit. */
  async #checkRoom(name: string, names: readonly string[], signal?: AbortSignal): Promise<void> {
    const { reader, maxNames = MAX_NAMES } = this.#options;
    const all = new Set((await reader.under(name, signal)).map((image) => image.name));
    const before = all.size;
    for (const one of names) all.add(one);
    if (all.size === before || all.size <= maxNames) return;
    throw new SvcError(
      "conflict",
      `Cannot name the manifest: ${name} would have ${all.size} tags and digests, the limit is ${maxNames}`,
      { help: "delete some, or push to another repository" },
    );
  }

  /** Manifests that were pushed for an index need no names any more, once the index has one. */
  async #dropParts(name: string, parts: readonly Digest[], signal?: AbortSignal): Promise<void> {
    if (parts.length === 0) return;
    const wanted = new Set(parts);
    for (const image of await this.#options.reader.under(name, signal)) {
      const { digest } = placeOf(image.name)!;
      const part = digest !== undefined && digest === image.target.digest && wanted.has(digest);
      if (part && this.#isOwn(image) && !image.labels[SUBJECT]) await this.#remove(image.name);
    }
  }

  async #remove(name: string): Promise<void> {
    const { client } = this.#options;
    await orMissing(client.call(Images.delete, { name }, `Cannot remove image ${name}`));
  }

  #isOwn({ labels }: ImageMessage): boolean {
    return labels[REGISTRY_OWNER] === this.#options.owner;
  }

  #foreign(name: string): SvcError {
    const { namespace } = this.#options.client;
    return new SvcError(
      "registry_read_only",
      `Cannot delete ${name}: it was not pushed here, another program gave it to containerd`,
      { help: `remove it there: ctr -n ${namespace} images rm ${name}` },
    );
  }
}
