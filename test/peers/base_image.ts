/**
 * Base images made on the spot from the static busybox of Debian's package: no public registry is in
 * reach of the tests. The OCI layout is written here, so the image does not depend on the code tested.
 */
import { createHash } from "node:crypto";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { join } from "node:path";
import { tar, type TarEntry } from "../../scripts/build/tar.ts";

const BUSYBOX = "/bin/busybox";
const APPLETS = [
  "sh ls cat sleep httpd ip ps echo id mount nc wget touch mkdir rm cp mv ln env uname hostname true",
  "false date stat sync tee chmod chown dd sha256sum seq find tar grep sed awk head tail wc kill test",
  "printf expr sort cut tr readlink dirname basename od df du whoami",
].join(" ").split(" ");

export interface BaseImageOptions {
  /** Layers above the first: path → content. */
  layers?: Record<string, string | Uint8Array>[];
  /** Default: busybox httpd on port 8080 serving /srv. */
  cmd?: string[];
  env?: string[];
  /** Folders that the image declares as volumes. */
  volumes?: string[];
  /** When the image says it was made; default 1970. */
  created?: string;
  /** Of the layers; default gzip. */
  compression?: "gzip" | "zstd";
  /** Default "amd64" or "arm64", as the host is. */
  architecture?: string;
}

function rootEntries(): TarEntry[] {
  const directories = "bin dev etc proc root run sbin srv sys tmp usr usr/bin var".split(" ");
  return [
    ...directories.map((path): TarEntry => ({
      path,
      directory: true,
      mode: path === "tmp" ? 0o1777 : 0o755,
    })),
    { path: "bin/busybox", data: Deno.readFileSync(BUSYBOX), mode: 0o755 },
    ...APPLETS.map((name): TarEntry => ({ path: `bin/${name}`, link: "busybox" })),
    {
      path: "etc/passwd",
      data: "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/tmp:/bin/sh\n",
    },
    { path: "etc/group", data: "root:x:0:\nuser:x:1000:\n" },
    { path: "srv/index.html", data: "hello from busybox\n" },
  ];
}

/** Writes the base image's root file system as one archive, for `docker import` and `podman import`. */
export const busyboxArchive = (path: string) => Deno.writeFile(path, tar(rootEntries()));

const sha256 = (bytes: Uint8Array) => `sha256:${createHash("sha256").update(bytes).digest("hex")}`;

/** Writes an OCI image layout with one image, named `tag` in its index; gives the manifest's digest. */
export async function writeBaseLayout(
  directory: string,
  tag: string,
  options: BaseImageOptions = {},
): Promise<string> {
  const blobs = join(directory, "blobs/sha256");
  await Deno.mkdir(blobs, { recursive: true });
  const put = async (mediaType: string, bytes: Uint8Array) => {
    const digest = sha256(bytes);
    await Deno.writeFile(join(blobs, digest.slice("sha256:".length)), bytes);
    return { mediaType, digest, size: bytes.length };
  };
  const json = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
  const archives = [
    tar(rootEntries()),
    ...(options.layers ?? []).map((files) =>
      tar(Object.entries(files).map(([path, data]) => ({ path, data })))
    ),
  ];
  const { compression = "gzip" } = options;
  const packed = (archive: Uint8Array) =>
    compression === "gzip" ? gzipSync(archive, { level: 1 }) : zstdCompressSync(archive);
  const layers = [];
  for (const archive of archives) {
    layers.push(
      await put(`application/vnd.oci.image.layer.v1.tar+${compression}`, packed(archive)),
    );
  }
  const config = await put(
    "application/vnd.oci.image.config.v1+json",
    json({
      created: options.created ?? "1970-01-01T00:00:00Z",
      os: "linux",
      architecture: options.architecture ?? (Deno.build.arch === "aarch64" ? "arm64" : "amd64"),
      config: {
        Env: options.env ?? ["PATH=/bin:/usr/bin:/sbin"],
        Cmd: options.cmd ?? ["/bin/httpd", "-f", "-v", "-p", "8080", "-h", "/srv"],
        WorkingDir: "/",
        ...(options.volumes && {
          Volumes: Object.fromEntries(options.volumes.map((path) => [path, {}])),
        }),
        // The default command is process 1 and handles no signal: nobody should wait for it to.
        ...(options.cmd ? {} : { StopSignal: "SIGKILL" }),
      },
      rootfs: { type: "layers", diff_ids: archives.map(sha256) },
      history: archives.map((_, index) => ({
        created: "1970-01-01T00:00:00Z",
        created_by: `layer ${index}`,
      })),
    }),
  );
  const manifest = await put(
    "application/vnd.oci.image.manifest.v1+json",
    json({
      schemaVersion: 2,
      mediaType: "application/vnd.oci.image.manifest.v1+json",
      config,
      layers,
    }),
  );
  await Deno.writeTextFile(join(directory, "oci-layout"), '{"imageLayoutVersion":"1.0.0"}');
  await Deno.writeFile(
    join(directory, "index.json"),
    json({
      schemaVersion: 2,
      manifests: [{
        ...manifest,
        annotations: { "org.opencontainers.image.ref.name": tag },
      }],
    }),
  );
  return manifest.digest;
}
