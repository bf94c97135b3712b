/**
 * The build interface of the local engine and of remote builders. The events on the wire are in
 * lib/api/build.ts.
 */
import type { BuildEvent, BuildResult } from "../api/build.ts";
import type { AttestSpec } from "../api/build_attest.ts";
import type { CacheFromSpec, CacheToSpec } from "../api/build_cache_spec.ts";
import type { Entitlement } from "../api/build_entitlements.ts";
import type { OutputSpec } from "../api/build_output.ts";
import type { Login } from "../oci/resolver.ts";
import type { BuildCache } from "./cache/cache.ts";
import type { Spool } from "./export/spool.ts";
import type { KeptContexts } from "./context/kept_contexts.ts";
import type { RemoteContext } from "./context/remote.ts";
import type { AgentSource, NamedContext, SecretSource } from "./inputs.ts";

/** Who requested a build, according to the server's authentication and policy. */
export interface BuildCaller {
  subject: string;
  /** False: the caller may not read images of this server's registry. */
  mayPull: boolean;
  /** Owner of the build's cache mounts; absent: mounts that all callers share. */
  cacheOwner?: string;
}

export interface BuildRequest extends BuildDelivery {
  /** Absent: an unnamed caller that may read this server's images. */
  caller?: BuildCaller;
  /** Image names to publish under; may be empty (build only). */
  tags: string[];
  /** Path of the Dockerfile within the context; default "Dockerfile". */
  dockerfile: string;
  target?: string;
  buildArgs: Record<string, string>;
  labels: Record<string, string>;
  noCache: boolean;
  /**
   * Bounds all times in the image by SOURCE_DATE_EPOCH; without that build argument, by the newest file of
   * the context or the repository's commit. Default: times are not changed.
   */
  reproducible?: boolean;
  /** "os/arch[/variant]", several separated by commas; default the host's. */
  platform?: string;
  /** The context as a tar archive (plain, gzip or zstd, told apart by the first bytes), or a remote context. */
  context: ReadableStream<Uint8Array> | RemoteContext;
  /** Largest context archive, in bytes unpacked; a larger one is `too_large`. */
  maxContextBytes?: number;
  /**
   * Address of a git repository, a tar archive or a Dockerfile. It replaces `context`, which is then not
   * read.
   */
  contextUrl?: string;
  /** Default: no secrets; a step that requires one fails. */
  secrets?: SecretSource;
  /** Default: no agent; a step that requires one fails. */
  ssh?: AgentSource;
  /** By name (case does not matter). A named context takes precedence over a stage or image of that name. */
  contexts?: Record<string, NamedContext>;
  /** Lines for the steps' /etc/hosts: "name:address" or "name=address"; "host-gateway" is this host. */
  addHosts?: string[];
  /** Asks registries again what a tag means. */
  pull?: boolean;
  /** Network of a RUN without `--network`. Default: "default", the network of SVC_BUILD_NETWORK. */
  network?: "default" | "none" | "host";
  /** Entitlements of the Dockerfile; the server must permit them too. */
  allow?: Entitlement[];
}

/** Where the result goes, and what is delivered with it. */
export interface BuildDelivery {
  /** Default: the image, pushed under `tags`. Only the client uses `dest`. */
  outputs?: OutputSpec[];
  /** In the form of `--annotation`. */
  annotations?: string[];
  /** Caches to import; a missing one gives a warning. */
  cacheFrom?: CacheFromSpec[];
  cacheTo?: CacheToSpec[];
  /** The caller's logins at registries, by host; they take precedence over the server's. */
  logins?: ReadonlyMap<string, Login>;
  /** Host for image names without a registry; default: the server's own. */
  registry?: string;
  /** Attestations of images that are pushed or written to an OCI archive. */
  attest?: AttestSpec[];
}

export interface BuildOptions {
  onEvent: (event: BuildEvent) => void;
  signal?: AbortSignal;
}

export interface Builder extends AsyncDisposable {
  /**
   * Builds and publishes, and reports progress as events. Throws `dockerfile_invalid`, `context_invalid`,
   * `build_failed` (detail: line, command, exitCode, output) or what storage threw.
   */
  build(request: BuildRequest, options: BuildOptions): Promise<BuildResult>;
  /**
   * Archives that outputs gave, each to be taken once, and archives that clients send for a build. Absent
   * where another process keeps them.
   */
  readonly archives?: Pick<Spool, "take" | "put">;
  /** The build cache; absent where another process keeps it. */
  readonly cache?: Pick<BuildCache, "usage" | "prune">;
  /** Makes trees of remote contexts, for named contexts; absent where another process keeps them. */
  readonly contexts?: Pick<KeptContexts, "use">;
}
