/** Options of `svc build` that say where the result goes and what goes with it. */
import type { AnyOption } from "../../config/load.ts";

const section = "Result";

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
  {
    key: "load",
    kind: "bool",
    flag: "load",
    help:
      "Load the image into this machine's docker (or podman); the same as --output type=docker.",
    section,
  },
  {
    key: "push",
    kind: "bool",
    flag: "push",
    negatable: true,
    help: "Push the image under each name, beside other outputs too. --no-push: only build.",
    section,
  },
  {
    key: "cacheFrom",
    kind: "list",
    flag: "cache-from",
    verbatim: true,
    placeholder: "TYPE=…",
    help:
      "Cache of another machine: type=registry,ref=NAME (a cache, or an image with an inline one), " +
      "type=local,src=FOLDER; mounts=true restores cache mounts. A name alone is a registry's. May be " +
      "repeated.",
    section,
  },
  {
    key: "cacheTo",
    kind: "list",
    flag: "cache-to",
    verbatim: true,
    placeholder: "TYPE=…",
    help: "Where the cache is stored for other machines: type=inline (in the image), " +
      "type=registry,ref=NAME or type=local,dest=FOLDER, with mode=min|max, mounts=true for cache " +
      "mounts, compression= and ignore-error=true. May be repeated.",
    section,
  },
  {
    key: "attest",
    kind: "list",
    flag: "attest",
    verbatim: true,
    placeholder: "TYPE=…",
    help:
      "Attestation that goes with the image: type=provenance[,mode=min|max][,builder-id=URI] or " +
      "type=sbom. May be repeated.",
    section,
  },
  {
    key: "provenance",
    kind: "string",
    flag: "provenance",
    placeholder: "true|mode=…",
    help: "Attest how the image came to be (SLSA v1); short for --attest type=provenance.",
    section,
  },
  {
    key: "sbom",
    kind: "string",
    flag: "sbom",
    placeholder: "true",
    help: "Attest what the image holds (SPDX): packages of dpkg, apk, npm and Python; short for " +
      "--attest type=sbom.",
    section,
  },
  {
    key: "annotations",
    kind: "list",
    flag: "annotation",
    verbatim: true,
    placeholder: "[LEVEL:]K=V",
    help: "Annotation of the manifest, or of index, manifest-descriptor; a platform in brackets " +
      "restricts it: manifest[linux/arm64]:K=V. May be repeated.",
    section,
  },
  {
    key: "metadataFile",
    kind: "string",
    flag: "metadata-file",
    placeholder: "PATH",
    help: "Write the result's digests, names and size there, as JSON.",
    section,
  },
  {
    key: "iidFile",
    kind: "string",
    flag: "iidfile",
    placeholder: "PATH",
    help: "Write the image's id there; of several platforms the index's digest.",
    section,
  },
] as const satisfies readonly AnyOption[];

/** What the build may read besides its context, and where it runs. */
export const INPUT_OPTIONS = [
  {
    key: "contexts",
    kind: "list",
    flag: "build-context",
    verbatim: true,
    placeholder: "NAME=PATH",
    help:
      "Folder, docker-image://IMAGE, URL or git repository that FROM, COPY --from and mounts know " +
      "by that name. May be repeated.",
    section: "Inputs",
  },
  {
    key: "lazy",
    kind: "bool",
    flag: "lazy",
    help: "What RUN mounts of a --build-context folder is read on demand, not fetched before.",
    section: "Inputs",
  },
  {
    key: "secrets",
    kind: "list",
    flag: "secret",
    verbatim: true,
    placeholder: "id=ID[,src=FILE|,env=VAR]",
    help:
      "Secret for RUN --mount=type=secret; without a source the variable or file of that name. " +
      "May be repeated.",
    section: "Inputs",
  },
  {
    key: "ssh",
    kind: "list",
    flag: "ssh",
    verbatim: true,
    placeholder: "default|ID[=SOCKET|KEYFILE[,KEYFILE]]",
    help:
      "SSH agent for RUN --mount=type=ssh: that of SSH_AUTH_SOCK, of a socket, or one that holds the " +
      "private keys of these files and nothing else; their passphrases are asked for. May be repeated.",
    section: "Inputs",
  },
  {
    key: "addHosts",
    kind: "list",
    flag: "add-host",
    verbatim: true,
    placeholder: "NAME:ADDRESS",
    help: "Line of the steps' /etc/hosts; the address host-gateway is the builder itself. May be " +
      "repeated.",
    section: "Inputs",
  },
  {
    key: "pull",
    kind: "bool",
    flag: "pull",
    help:
      "Ask the registries what the tags of images mean now, even where a mirror asked just before.",
    section: "Inputs",
  },
  {
    key: "network",
    kind: "string",
    flag: "network",
    choices: ["default", "none", "host"],
    placeholder: "MODE",
    defaultText: "the builder's own",
    help: "Network of RUN where its --network says nothing else.",
    section: "Inputs",
  },
  {
    key: "allow",
    kind: "list",
    flag: "allow",
    verbatim: true,
    placeholder: "RIGHT",
    help:
      "Let the Dockerfile use RUN --security=insecure (security.insecure), or RUN --device with devices " +
      "that are not free for every build: device any, device=NAME those of that name, " +
      "device=NAME,alias=OTHER those for what the Dockerfile calls OTHER; or the cache mounts that all " +
      "callers share, where a policy gives each its own (cache.shared). SVC_BUILD_ENTITLEMENTS has to " +
      "permit it. network.host is for RUN --network=host, and what --network=host asks for by itself.",
    section: "Inputs",
  },
  {
    key: "builder",
    kind: "string",
    env: ["SVC_BUILDER"],
    placeholder: "URL",
    help: "Server that builds, where it is not the one that everything else talks to.",
    section: "Inputs",
  },
  {
    key: "registry",
    kind: "string",
    env: ["SVC_REGISTRY"],
    placeholder: "HOST[:PORT]",
    defaultText: "with SVC_BUILDER the server's own, else the builder's",
    help: "Registry of names that have none.",
    section: "Inputs",
  },
] as const satisfies readonly AnyOption[];
