/** Images to measure with, made of random bytes. */
import { createHash } from "node:crypto";

export const MANIFEST = "application/vnd.oci.image.manifest.v1+json";

/** A registry. */
export interface Place {
  /** "127.0.0.1:PORT". */
  host: string;
  /** Trusts the registry's authority. Absent: plain HTTP. */
  client?: Deno.HttpClient;
}

/** One request; throws for what is not a success. */
export async function ask(
  { host, client }: Place,
  method: string,
  path: string,
  type: string,
  body?: BodyInit,
) {
  const headers: Record<string, string> = body === undefined ? {} : { "content-type": type };
  const url = new URL(path, `${client ? "https" : "http"}://${host}`);
  const answer = await fetch(url, { method, headers, body, client });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
  return answer;
}

export async function pushBlob(place: Place, repository: string, bytes: Uint8Array<ArrayBuffer>) {
  const digest = `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
  const start = await ask(place, "POST", `/v2/${repository}/blobs/uploads/`, "");
  const location = new URL(start.headers.get("location")!, start.url);
  location.searchParams.set("digest", digest);
  await ask(place, "PUT", location.href, "application/octet-stream", bytes);
  return { digest, size: bytes.length };
}

/** An image of `layers` of the same size each; gives its digests. */
export async function pushImage(place: Place, repository: string, layers: number, size: number) {
  const config = await pushBlob(
    place,
    repository,
    new TextEncoder().encode('{"architecture":"amd64","os":"linux","rootfs":{"type":"layers"}}'),
  );
  const list: { digest: string; size: number }[] = [];
  for (let n = 0; n < layers; n++) {
    const bytes = new Uint8Array(size);
    crypto.getRandomValues(bytes.subarray(0, Math.min(size, 65536)));
    list.push(await pushBlob(place, repository, bytes));
  }
  const manifest = JSON.stringify({
    schemaVersion: 2,
    mediaType: MANIFEST,
    config: { mediaType: "application/vnd.oci.image.config.v1+json", ...config },
    layers: list.map((layer) => ({
      mediaType: "application/vnd.oci.image.layer.v1.tar",
      ...layer,
    })),
  });
  await ask(place, "PUT", `/v2/${repository}/manifests/v1`, MANIFEST, manifest);
  return list.map((layer) => layer.digest);
}
