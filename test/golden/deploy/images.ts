/** The images that the cases run, as one OCI layout: a common tree, and a configuration for each. */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { writeTar } from "../../../lib/oci/tar_write.ts";
import type { Descriptor, ImageConfig, Manifest } from "../../../lib/oci/types.ts";
import { writeBaseLayout } from "../../peers/base_image.ts";
import type { Case } from "./case.ts";
import { PROBE } from "./probe.ts";

const GROUPS = "root:x:0:\nuser:x:1000:\nstaff:x:50:user\ndisk:x:6:root\nextra:x:2000:user\n";
const USERS = "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/home/user:/bin/sh\n" +
  "lost:x:1234:50::/nowhere:/bin/sh\n";

/** Folders that volumes are seeded from, with owners; users in several groups; the probe. */
async function treeLayer(): Promise<Uint8Array> {
  const file = (path: string, text: string, rest: Record<string, number> = {}) => {
    const body = new TextEncoder().encode(text);
    return { path, type: "file" as const, size: body.length, mode: 0o644, body, ...rest };
  };
  const folder = (path: string, rest: Record<string, number> = {}) => ({
    path,
    type: "directory" as const,
    mode: 0o755,
    ...rest,
  });
  const archive = writeTar([
    folder("etc"),
    file("etc/group", GROUPS),
    file("etc/passwd", USERS),
    folder("home"),
    folder("home/user", { uid: 1000, gid: 1000 }),
    file("probe", PROBE, { mode: 0o755 }),
    folder("seed", { uid: 1000, gid: 2000, mode: 0o750 }),
    file("seed/own", "own\n", { uid: 1000, gid: 50, mode: 0o640 }),
    folder("seed/deep"),
    file("seed/deep/file", "deep\n", { mode: 0o4755 }),
    { path: "seed/link", type: "symlink" as const, linkpath: "own" },
  ]);
  return await new Response(archive).bytes();
}

/** Equal configurations are one image. */
export function tagOf(test: Case): string {
  const text = JSON.stringify(test.image ?? {});
  return `probe-${createHash("sha256").update(text).digest("hex").slice(0, 12)}`;
}

/** `named` gives the annotations of a tag in the index. */
export async function writeImages(
  folder: string,
  cases: readonly Case[],
  named: (tag: string) => Record<string, string>,
): Promise<void> {
  await writeBaseLayout(folder, "base");
  const put = async (mediaType: string, bytes: Uint8Array): Promise<Descriptor> => {
    const hex = createHash("sha256").update(bytes).digest("hex");
    await Deno.writeFile(join(folder, "blobs/sha256", hex), bytes);
    return { mediaType, digest: `sha256:${hex}`, size: bytes.length };
  };
  const json = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
  const read = async <T>({ digest }: Descriptor): Promise<T> =>
    JSON.parse(await Deno.readTextFile(join(folder, "blobs", digest.replace(":", "/"))));
  const indexPath = join(folder, "index.json");
  const [base] = JSON.parse(await Deno.readTextFile(indexPath)).manifests;
  const manifest = await read<Manifest>(base);
  const config = await read<ImageConfig>(manifest.config);
  const layer = await put("application/vnd.oci.image.layer.v1.tar", await treeLayer());
  const images = new Map(cases.map((test) => [tagOf(test), test.image ?? {}]));
  const manifests = await Promise.all([...images].map(async ([tag, image]) => {
    const made = await put(
      manifest.config.mediaType,
      json({
        ...config,
        config: { Env: ["PATH=/bin:/usr/bin:/sbin"], Entrypoint: ["/probe"], ...image },
        rootfs: { type: "layers", diff_ids: [...config.rootfs.diff_ids, layer.digest] },
        history: [...config.history ?? [], { created_by: "the probe" }],
      }),
    );
    const whole = { ...manifest, config: made, layers: [...manifest.layers, layer] };
    return { ...await put(manifest.mediaType!, json(whole)), annotations: named(tag) };
  }));
  await Deno.writeFile(indexPath, json({ schemaVersion: 2, manifests }));
}
