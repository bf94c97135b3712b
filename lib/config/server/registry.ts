/** SPEC "Registry". */
import { SvcError } from "../../base/errors.ts";
import { oneOf } from "../checks.ts";
import { registryMirror } from "../registry_mirror.ts";
import { optionTable } from "../table.ts";

function checkSource(
  { registrySource, registryMirror }: { registrySource?: string; registryMirror?: string },
): void {
  if (registrySource !== "host-native" || registryMirror === undefined) return;
  throw new SvcError(
    "config_invalid",
    "Cannot use SVC_REGISTRY_MIRROR: it and SVC_REGISTRY_SOURCE=host-native exclude each other",
    { help: "unset one of the two" },
  );
}

export const REGISTRY = optionTable([
  {
    key: "registryMirror",
    kind: "string",
    env: ["SVC_REGISTRY_MIRROR"],
    section: "Registry",
    placeholder: "[PREFIX=]HOST,…",
    help: "Upstream, [scheme://]host[:port], that a local registry miss is pulled through from. " +
      "Several by prefix: docker.io=https://registry-1.docker.io,ghcr=ghcr.io serves ghcr/org/app " +
      "from org/app of ghcr.io; the longest prefix wins, and one upstream without a prefix takes " +
      "the rest. Pushes stay allowed, and what was pushed here wins. Excludes " +
      "SVC_REGISTRY_SOURCE=host-native.",
    check: registryMirror,
  },
  {
    key: "registryMirrorCache",
    kind: "bool",
    env: ["SVC_REGISTRY_MIRROR_CACHE"],
    default: true,
    section: "Registry",
    help:
      "Keep what the mirror fetched in the local store. Off: content is passed through and not stored.",
  },
  {
    key: "registrySparse",
    kind: "string",
    flag: "registry-sparse",
    env: ["SVC_REGISTRY_SPARSE"],
    default: "off",
    placeholder: "off|index|all",
    section: "Registry",
    help:
      "Whether a manifest may refer to missing content. index: an index (manifest list) may lack some " +
      "of its manifests, as when a tool copies few of its platforms. all: an image may lack blobs, " +
      "too. off refuses both with 404 MANIFEST_BLOB_UNKNOWN.",
    check: oneOf(["off", "index", "all"]),
  },
  {
    key: "registryRedirect",
    kind: "bool",
    flag: "registry-redirect",
    env: ["SVC_REGISTRY_REDIRECT"],
    default: false,
    section: "Registry",
    help: "Answer GET of a blob with 307 and an address of the storage, signed for 20 minutes, " +
      "so that its bytes do not pass through this server: s3://, gs:// and azblob:// with " +
      "credentials that can sign. Clients must reach the storage under the endpoint that is " +
      "configured here. Off, or where nothing can be signed: this server sends the bytes.",
  },
  {
    key: "registrySource",
    kind: "string",
    env: ["SVC_REGISTRY_SOURCE"],
    defaultText:
      "host-native on a backend that has images of its own; off otherwise, and with --rootless",
    placeholder: "host-native|off",
    section: "Registry",
    help:
      "host-native shows the images of the deploy backend's engine under /v2/: read-only, with " +
      "containerd read and written, and with --storage beside what is pushed there. off keeps the " +
      "registry's own content store, as SVC_REGISTRY_MIRROR and backends without images of their own do.",
    check: oneOf(["host-native", "off"]),
  },
], checkSource);

/** How this server reaches other registries, for builds, deployments and the mirror. */
export const REMOTES = optionTable([
  {
    key: "insecureRegistries",
    kind: "list",
    env: [
      "SVC_INSECURE_REGISTRIES",
      "SVC_BARE_INSECURE_REGISTRIES",
      "SVC_CONTAINERD_INSECURE_REGISTRIES",
    ],
    agree: true,
    default: [],
    defaultText: "localhost only",
    section: "Other registries",
    help: "Comma-separated host[:port] that images are pulled from over plain HTTP.",
  },
]);

/**
 * What is under /v2/ (SPEC "Registry view rules"). "host-native": the images of the deploy backend's engine.
 * "store": a content store. "union": a content store, and the engine's images behind it.
 */
export type RegistryMode = "store" | "host-native" | "union";

/** Throws `config_invalid` where the backend has no images to show. */
export function registryMode(
  { registrySource, registryMirror }: { registrySource?: string; registryMirror?: string },
  { backend, hasImages, storageGiven, rootless }: {
    backend: string;
    /** The backend's engine has an image store that svc can read. */
    hasImages: boolean;
    /** --storage is set. */
    storageGiven: boolean;
    /** --rootless is set: a registry and a builder that need no engine. It shows one only where it is told to. */
    rootless: boolean;
  },
): RegistryMode {
  if (registrySource === "host-native" && !hasImages) {
    throw new SvcError(
      "config_invalid",
      `Cannot use SVC_REGISTRY_SOURCE=host-native: the backend ${backend} has no images of its own`,
      { help: "unset it, or choose another SVC_DEPLOY_BACKEND" },
    );
  }
  const off = registrySource === "off" || registryMirror !== undefined || !hasImages ||
    rootless && registrySource === undefined;
  return off ? "store" : storageGiven ? "union" : "host-native";
}

/** The parts of an image that SVC_REGISTRY_SPARSE allows a push to leave out. */
export function sparseManifests(text: string): false | "indexes" | "all" {
  return text === "index" ? "indexes" : text === "all" ? "all" : false;
}
