/** Clients of the soak: they push, mount, re-tag, delete and pull over HTTP, and know what must be there. */
import { createHash } from "node:crypto";

const MANIFEST = "application/vnd.oci.image.manifest.v1+json";

/** What a client sees of a server that may be killed at any moment. */
export interface Target {
  url: string;
  /** Counts kills; odd while it is down. */
  epoch: number;
}

export interface Tally {
  pushes: number;
  mounts: number;
  retags: number;
  deletes: number;
  pulls: number;
  /** Operations that a kill cut; each was done again. */
  cut: number;
  failures: string[];
}

interface Image {
  bytes: Uint8Array<ArrayBuffer>;
  digest: string;
  blobs: { digest: string; bytes: Uint8Array<ArrayBuffer> }[];
}

/** Something that no kill explains. */
class Failure extends Error {}

export function digestOf(bytes: Uint8Array): string {
  return `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
}

const layers = new Map<number, { digest: string; bytes: Uint8Array<ArrayBuffer> }>();

/** The n-th layer that all clients share; 1 to 64 KiB. */
function layer(n: number) {
  let found = layers.get(n);
  if (!found) {
    const bytes = new Uint8Array(1024 * (1 + n * 7 % 64));
    for (let at = 0; at < bytes.length; at++) bytes[at] = at * 31 + n * 17 + (at >> 8);
    layers.set(n, found = { bytes, digest: digestOf(bytes) });
  }
  return found;
}

/** How many configs and layers there are that images are made of. */
const CONFIGS = 40;
const LAYERS = 30;

const configOf = (n: number) => new TextEncoder().encode(JSON.stringify({ image: n }));

/** Digests of all blobs that clients may push. */
export function pushable(): string[] {
  return [
    ...Array.from({ length: CONFIGS }, (_, n) => digestOf(configOf(n))),
    ...Array.from({ length: LAYERS }, (_, n) => layer(n).digest),
  ];
}

function makeImage(random: (below: number) => number): Image {
  const config = configOf(random(CONFIGS));
  const picked = new Set(Array.from({ length: 1 + random(3) }, () => random(LAYERS)));
  const blobs = [{ bytes: config, digest: digestOf(config) }, ...[...picked].map(layer)];
  const [first, ...rest] = blobs.map(({ digest, bytes }, index) => ({
    mediaType: index === 0
      ? "application/vnd.oci.image.config.v1+json"
      : "application/vnd.oci.image.layer.v1.tar+gzip",
    digest,
    size: bytes.length,
  }));
  const bytes = new TextEncoder().encode(
    JSON.stringify({ schemaVersion: 2, mediaType: MANIFEST, config: first, layers: rest }),
  );
  return { bytes, digest: digestOf(bytes), blobs };
}

export class Client {
  /** "repository:tag" to the image that it names; this client alone writes these tags. */
  readonly tags = new Map<string, Image>();
  #next = 0;

  constructor(
    private readonly name: string,
    private readonly targets: Target[],
    private readonly tally: Tally,
    private readonly random: (below: number) => number = (below) =>
      Math.floor(Math.random() * below),
  ) {}

  async run(going: () => boolean): Promise<void> {
    while (going()) {
      const choice = this.random(10);
      if (choice < 4 || this.tags.size === 0) await this.#push();
      else if (choice < 6) await this.#pull();
      else if (choice < 8) await this.#retag();
      else await this.#delete();
    }
  }

  /** Every image that must be there, read whole. */
  async pullAll(): Promise<void> {
    for (const tag of this.tags.keys()) {
      await this.#try("pull", (target) => this.#read(target, tag));
    }
  }

  #pick(): string {
    return [...this.tags.keys()][this.random(this.tags.size)];
  }

  /** Does it again where a kill came in between; anything else that goes wrong is a failure. */
  async #try<T>(what: string, work: (target: Target) => Promise<T>): Promise<T | undefined> {
    for (;;) {
      const target = this.targets[this.random(this.targets.length)];
      const { epoch } = target;
      if (epoch % 2 === 1) {
        await new Promise((resolve) => setTimeout(resolve, 50));
        continue;
      }
      try {
        return await work(target);
      } catch (error) {
        // The kill is counted before it happens, so that nobody is told of a failure too early.
        if (target.epoch !== epoch) {
          this.tally.cut++;
          continue;
        }
        this.tally.failures.push(`${this.name}: ${what}: ${(error as Error).message}`);
        return undefined;
      }
    }
  }

  async #call(
    target: Target,
    method: string,
    path: string,
    init: RequestInit,
    ...wanted: number[]
  ) {
    const url = path.startsWith("http") ? path : target.url + path;
    const response = await fetch(url, { method, signal: AbortSignal.timeout(60_000), ...init });
    if (wanted.includes(response.status)) return response;
    const text = await response.text();
    throw new Failure(`${method} ${path}: ${response.status} ${text.slice(0, 300)}`);
  }

  async #done(response: Promise<Response>): Promise<Response> {
    const answer = await response;
    await answer.body?.cancel();
    return answer;
  }

  #repository(): string {
    return this.random(3) === 0 ? "soak/common" : `soak/${this.name}`;
  }

  async #push(): Promise<void> {
    const repository = this.#repository();
    const tag = `${repository}:${this.name}-${this.#next++ % 12}`;
    const image = makeImage(this.random);
    const before = this.tags.get(tag);
    this.tags.delete(tag);
    const pushed = await this.#try("push", async (target) => {
      for (const blob of image.blobs) await this.#sendBlob(target, repository, blob);
      await this.#putManifest(target, tag, image);
      return true;
    });
    if (pushed) {
      this.tags.set(tag, image);
      this.tally.pushes++;
    } else if (before) this.tags.set(tag, before);
  }

  async #putManifest(target: Target, name: string, image: Image): Promise<void> {
    const [repository, tag] = name.split(":");
    await this.#done(
      this.#call(target, "PUT", `/v2/${repository}/manifests/${tag}`, {
        body: image.bytes,
        headers: { "content-type": MANIFEST },
      }, 201),
    );
  }

  async #sendBlob(target: Target, repository: string, { digest, bytes }: Image["blobs"][number]) {
    const base = `/v2/${repository}/blobs`;
    // Some clients ask first, some try to mount at once, some do neither.
    const choice = this.random(4);
    if (choice < 2) {
      const head = await this.#done(this.#call(target, "HEAD", `${base}/${digest}`, {}, 200, 404));
      if (head.status === 200) return;
    }
    let location: string;
    if (choice === 2) {
      const query = `mount=${digest}&from=soak/common`;
      const mount = await this.#done(
        this.#call(target, "POST", `${base}/uploads/?${query}`, {}, 201, 202),
      );
      if (mount.status === 201) {
        this.tally.mounts++;
        return;
      }
      location = mount.headers.get("location")!;
    } else {
      const start = await this.#done(this.#call(target, "POST", `${base}/uploads/`, {}, 202));
      location = start.headers.get("location")!;
    }
    const half = bytes.length >> 1;
    await this.#done(
      this.#call(target, "PATCH", location, {
        body: bytes.subarray(0, half),
        headers: { "content-range": `0-${half - 1}` },
      }, 202),
    );
    await this.#done(
      this.#call(
        target,
        "PUT",
        `${location}?digest=${digest}`,
        { body: bytes.subarray(half) },
        201,
      ),
    );
  }

  async #read(target: Target, name: string): Promise<void> {
    const [repository, tag] = name.split(":");
    const image = this.tags.get(name)!;
    const manifest = await this.#call(target, "GET", `/v2/${repository}/manifests/${tag}`, {}, 200);
    const digest = digestOf(await manifest.bytes());
    if (digest !== image.digest) throw new Failure(`${name} is ${digest}, not ${image.digest}`);
    for (const blob of image.blobs) {
      const path = `/v2/${repository}/blobs/${blob.digest}`;
      const body = await (await this.#call(target, "GET", path, {}, 200)).bytes();
      if (digestOf(body) !== blob.digest) throw new Failure(`${path} has other bytes`);
    }
  }

  async #pull(): Promise<void> {
    const tag = this.#pick();
    await this.#try("pull", (target) => this.#read(target, tag));
    this.tally.pulls++;
  }

  async #retag(): Promise<void> {
    const tag = this.#pick();
    const image = this.tags.get(tag)!;
    const other = `${tag.split(":")[0]}:${this.name}-again-${this.random(5)}`;
    this.tags.delete(other);
    const done = await this.#try("re-tag", async (target) => {
      await this.#putManifest(target, other, image);
      return true;
    });
    if (done) this.tags.set(other, image);
    this.tally.retags++;
  }

  /** The tag, or in this client's own repository the manifest with all its tags. */
  async #delete(): Promise<void> {
    const name = this.#pick();
    const [repository, tag] = name.split(":");
    const { digest } = this.tags.get(name)!;
    const whole = repository === `soak/${this.name}` && this.random(2) === 0;
    for (const [other, image] of [...this.tags]) {
      const gone = whole && other.startsWith(`${repository}:`) && image.digest === digest;
      if (gone || other === name) this.tags.delete(other);
    }
    const path = `/v2/${repository}/manifests/${whole ? digest : tag}`;
    await this.#try(
      "delete",
      (target) => this.#done(this.#call(target, "DELETE", path, {}, 202, 404)),
    );
    this.tally.deletes++;
  }
}

/** Digests of everything that the clients' tags hold on to. */
export function needed(clients: Client[]): Set<string> {
  const digests = new Set<string>();
  for (const client of clients) {
    for (const { digest, blobs } of client.tags.values()) {
      digests.add(digest);
      for (const blob of blobs) digests.add(blob.digest);
    }
  }
  return digests;
}
