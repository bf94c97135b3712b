/** Images to measure with, made of random bytes. */
import { createHash } from "node:crypto";

export const MANIFEST = "application/vnd.oci.image.manifest.v1+json";

/** One request; throws for what is no success. */
export async function ask(
  host: string,
  method: string,
  path: string,
  type: string,
  body?: BodyInit,
) {
  const headers: Record<string, string> = body === undefined ? {} : { "content-type": type };
  const answer = await fetch(path.startsWith("http") ? path : `http://${host}${path}`, {
    method,
    headers,
    body,
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
  return answer;
}

export async function pushBlob(host: string, repository: string, bytes: Uint8Array<ArrayBuffer>) {
  const digest = `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
  const start = await ask(host, "POST", `/v2/${repository}/blobs/uploads/`, "");
  const place = new URL(start.headers.get("location")!, `http://${host}`);
  place.searchParams.set("digest", digest);
  await ask(host, "PUT", place.href, "application/octet-stream", bytes);
  return { digest, size: bytes.length };
}

/** An image of `layers` of the same size each; gives its digests. */
export async function pushImage(host: string, repository: string, layers: number, size: number) {
  const config = await pushBlob(
    host,
    repository,
    new TextEncoder().encode('{"architecture":"amd64","os":"linux","rootfs":{"type":"layers"}}'),
  );
  const list: { digest: string; size: number }[] = [];
  for (let n = 0; n < layers; n++) {
    const bytes = new Uint8Array(size);
    crypto.getRandomValues(bytes.subarray(0, Math.min(size, 65536)));
    list.push(await pushBlob(host, repository, bytes));
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
  await ask(host, "PUT", `/v2/${repository}/manifests/v1`, MANIFEST, manifest);
  return list.map((layer) => layer.digest);
}
