/** Options of `svc build` that say where the result goes and what goes with it. */
import type { AnyOption } from "../../config/load.ts";
import { optionRows } from "../../config/option_rows.ts";

const section = "Result";
const inputs = optionRows("Inputs");
const { flag, text, list } = optionRows("Result");

export const RESULT_OPTIONS = [
  {
    key: "outputs",
    kind: "list",
    flag: "output",
    short: "o",
    verbatim: true,
    placeholder: "TYPE=…",
    defaultText: "type=image, pushed under each name",
    help:
      "Where the result goes: type=image|docker|oci|tar|local|cacheonly with dest=, name=, push=, " +
      "store= (into a containerd worker's images, default true), compression=gzip|zstd|uncompressed, compression-level=, force-compression=, oci-mediatypes=, " +
      "annotation.KEY=; a folder alone is type=local, - is a tar on standard output. May be repeated. " +
      "The words auto, plain, fancy and json are the mode, as with every command.",
    section,
  },
  flag(
    "load",
    "load",
    "Load the image into docker (or podman) on this machine; the same as --output " +
      "type=docker.",
  ),
  {
    ...flag(
      "push",
      "push",
      "Push the image under each name, in addition to other outputs. --no-push: only build.",
    ),
    negatable: true,
  },
  list(
    "cacheFrom",
    "cache-from",
    "TYPE=…",
    "Build cache to import: type=registry,ref=NAME (a cache, or an image with an inline " +
      "one) or type=local,src=FOLDER; mounts=true restores cache mounts. A name alone means " +
      "type=registry.",
  ),
  list(
    "cacheTo",
    "cache-to",
    "TYPE=…",
    "Build cache to export: type=inline (in the image), type=registry,ref=NAME or " +
      "type=local,dest=FOLDER, with mode=min|max, mounts=true for cache mounts, compression= " +
      "and ignore-error=true.",
  ),
  list(
    "attest",
    "attest",
    "TYPE=…",
    "Attestation that goes with the image: type=provenance[,mode=min|max][,builder-id=URI] " +
      "or type=sbom.",
  ),
  text(
    "provenance",
    "provenance",
    "true|mode=…",
    "Attest how the image was built (SLSA v1); short for --attest type=provenance.",
  ),
  text(
    "sbom",
    "sbom",
    "true",
    "Attest the contents of the image (SPDX): packages of dpkg, apk, npm and Python; short " +
      "for --attest type=sbom.",
  ),
  list(
    "annotations",
    "annotation",
    "[LEVEL:]K=V",
    "Annotation of the manifest, or of index, manifest-descriptor; a platform in brackets " +
      "restricts it: manifest[linux/arm64]:K=V.",
  ),
  text(
    "metadataFile",
    "metadata-file",
    "PATH",
    "Write the result's digests, names and size to this file, as JSON.",
  ),
  text(
    "iidFile",
    "iidfile",
    "PATH",
    "Write the image's id to this file; for several platforms, the digest of the index.",
  ),
] as const satisfies readonly AnyOption[];

/** What the build may read besides its context, and where it runs. */
export const INPUT_OPTIONS = [
  inputs.list(
    "contexts",
    "build-context",
    "NAME=PATH",
    "Folder, docker-image://IMAGE, URL or git repository that FROM, COPY --from and mounts " +
      "know by that name.",
  ),
  inputs.flag(
    "lazy",
    "lazy",
    "Read the --build-context folders that a RUN mounts on demand; do not fetch them before.",
  ),
  inputs.list(
    "secrets",
    "secret",
    "id=ID[,src=FILE|,env=VAR]",
    "Secret for RUN --mount=type=secret; without a source, the variable or file named ID.",
  ),
  inputs.list(
    "ssh",
    "ssh",
    "default|ID[=SOCKET|KEYFILE[,KEYFILE]]",
    "SSH agent for RUN --mount=type=ssh: the one of SSH_AUTH_SOCK, the one of a socket, or " +
      "one that holds only the private keys of these files; svc asks for their passphrases.",
  ),
  inputs.list(
    "addHosts",
    "add-host",
    "NAME:ADDRESS",
    "Entry for /etc/hosts of the steps; the address host-gateway is the builder itself.",
  ),
  inputs.flag(
    "pull",
    "pull",
    "Look up the tags of images at their registries, even where a mirror did so just before.",
  ),
  {
    ...inputs.text("network", "network", "MODE", "Network of a RUN without --network."),
    choices: ["default", "none", "host"],
    defaultText: "the builder's own",
  },
  {
    key: "allow",
    kind: "list",
    flag: "allow",
    verbatim: true,
    placeholder: "RIGHT",
    help:
      "Right that the Dockerfile may use; SVC_BUILD_ENTITLEMENTS of the server must permit it. " +
      "security.insecure: RUN --security=insecure. network.host: RUN --network=host; --network=host " +
      "implies it. device: RUN --device with devices that are not free for every build; device=NAME: " +
      "those of that name; device=NAME,alias=OTHER: those, under the Dockerfile's name OTHER. " +
      "cache.shared: the cache mounts that all callers share, where a policy gives each caller its " +
      "own.",
    section: "Inputs",
  },
  {
    key: "builder",
    kind: "string",
    env: ["SVC_BUILDER"],
    placeholder: "URL",
    help: "Server that runs the builds, where it is not the one of all other commands.",
    section: "Inputs",
  },
  {
    key: "registry",
    kind: "string",
    env: ["SVC_REGISTRY"],
    placeholder: "HOST[:PORT]",
    defaultText: "with SVC_BUILDER the server's own, else the builder's",
    help: "Registry of image names that have none.",
    section: "Inputs",
  },
] as const satisfies readonly AnyOption[];
