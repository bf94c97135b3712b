/**
 * The reference: docker's BuildKit through buildx. It needs BuildKit 0.25 (docker 28) or newer, the
 * containerd image store, and the entitlements security-insecure and network-host in the daemon's
 * configuration. `DOCKER_HOST` names the daemon; it has to reach this process's loopback (for a daemon in
 * a network namespace of its own, run this program in there with nsenter). Its image `base` is replaced.
 */
import { join } from "node:path";
import { writeBaseLayout } from "../../peers/base_image.ts";
import { BASE_CREATED, type Case, writeFiles } from "./case.ts";
import { listImage, type Listing } from "./listing.ts";

async function docker(
  args: string[],
  env: Record<string, string> = {},
): Promise<string | undefined> {
  const { code, stderr } = await new Deno.Command("docker", {
    args,
    env: { BUILDX_NO_DEFAULT_ATTESTATIONS: "1", ...env },
    stdout: "null",
    stderr: "piped",
  }).output();
  return code === 0 ? undefined : new TextDecoder().decode(stderr);
}

async function layoutOf(folder: string) {
  const read = async (digest: string) =>
    await Deno.readFile(join(folder, "blobs", digest.replace(":", "/")));
  const json = async (digest: string) => JSON.parse(new TextDecoder().decode(await read(digest)));
  const index = JSON.parse(await Deno.readTextFile(join(folder, "index.json")));
  let document = await json(index.manifests[0].digest);
  if (document.manifests) document = await json(document.manifests[0].digest);
  const open = async () =>
    await Promise.all(
      (document.layers ?? []).map(async ({ digest }: { digest: string }) =>
        new Blob([await read(digest)]).stream()
      ),
    );
  return { config: await json(document.config.digest), open };
}

async function build(test: Case, folder: string): Promise<string | undefined> {
  const context = join(folder, "context");
  await Deno.mkdir(context, { recursive: true });
  await writeFiles(context, { ...test.files, Dockerfile: test.dockerfile });
  const args = [
    "buildx",
    "build",
    "--no-cache",
    "--output",
    `type=oci,tar=false,dest=${folder}/image`,
  ];
  const add = (flag: string, values: Record<string, string> = {}) => {
    for (const [name, value] of Object.entries(values)) args.push(flag, `${name}=${value}`);
  };
  add("--build-arg", test.buildArgs);
  add("--label", test.labels);
  if (test.target) args.push("--target", test.target);
  if (test.platform) args.push("--platform", test.platform);
  if (test.network) args.push("--network", test.network);
  for (const host of test.addHosts ?? []) args.push("--add-host", host);
  if (test.dockerfile.includes("--network=host")) args.push("--allow", "network.host");
  for (const [id, value] of Object.entries(test.secrets ?? {})) {
    await Deno.writeTextFile(join(folder, `secret-${id}`), value);
    args.push("--secret", `id=${id},src=${folder}/secret-${id}`);
  }
  for (const [name, value] of Object.entries(test.contexts ?? {})) {
    let from = value;
    if (typeof from !== "string") {
      from = join(folder, `named-${name.replace(/\W/g, "_")}`);
      await Deno.mkdir(from);
      await writeFiles(from, value as Exclude<typeof value, string>);
    }
    args.push("--build-context", `${name}=${from}`);
  }
  return await docker([...args, context]);
}

export interface Reference {
  /** What BuildKit makes of it, or its message where it fails. */
  build(test: Case): Promise<Listing | { fails: true; message: string }>;
}

/** Loads the base image into the daemon. `folder` is for contexts and images. */
export async function openReference(folder: string): Promise<Reference> {
  const layout = join(folder, "base");
  await writeBaseLayout(layout, "base:latest", { created: BASE_CREATED });
  const index = JSON.parse(await Deno.readTextFile(join(layout, "index.json")));
  index.manifests[0].annotations["io.containerd.image.name"] = "docker.io/library/base:latest";
  index.manifests[0].annotations["org.opencontainers.image.ref.name"] = "latest";
  await Deno.writeTextFile(join(layout, "index.json"), JSON.stringify(index));
  await new Deno.Command("tar", { args: ["-cf", `${folder}/base.tar`, "-C", layout, "."] })
    .output();
  const problem = await docker(["load", "-i", `${folder}/base.tar`]);
  if (problem) throw new Error(problem);
  const base = await layoutOf(layout);
  return {
    async build(test) {
      const own = join(folder, test.name);
      await Deno.mkdir(own);
      const message = await build(test, own);
      if (message !== undefined) return { fails: true, message };
      const image = await layoutOf(join(own, "image"));
      const listing = await listImage(image.config, await image.open(), await base.open());
      await Deno.remove(own, { recursive: true });
      return listing;
    },
  };
}
