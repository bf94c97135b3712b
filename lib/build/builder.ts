/** The build interface: local engine and remote builder alike. Wire events are in lib/api/build.ts. */
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

/** Who asks for a build, as the server's authentication and policy have it. */
export interface BuildCaller {
  subject: string;
  /** False: images of this server's registry are not for the caller to read. */
  mayPull: boolean;
  /** Whose cache mounts the build uses; absent: everybody's. */
  cacheOwner?: string;
}

export interface BuildRequest extends BuildDelivery {
  /** Absent: nobody in particular, who may read what is here. */
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
   * No time in the image is later than SOURCE_DATE_EPOCH; where that is no build argument, than the newest
   * file of the context, or the commit of a repository. Default: times are what they are.
   */
  reproducible?: boolean;
  /** "os/arch[/variant]", several separated by commas; default the host's. */
  platform?: string;
  /**
   * The context as a tar archive (plain, gzip or zstd, told apart by its first bytes), or where it can be
   * read.
   */
  context: ReadableStream<Uint8Array> | RemoteContext;
  /** Bytes of an archive, unpacked, at most; more is `too_large`. */
  maxContextBytes?: number;
  /**
   * Takes the place of `context`, which is not read: a git repository, or a tar archive or a Dockerfile
   * behind a URL.
   */
  contextUrl?: string;
  /** Default: there are none, and a step that requires one fails. */
  secrets?: SecretSource;
  /** Default: there is no agent, and a step that requires one fails. */
  ssh?: AgentSource;
  /** By name (without case); they stand before stages and images of the same name. */
  contexts?: Record<string, NamedContext>;
  /** Lines for the steps' /etc/hosts: "name:address" or "name=address"; "host-gateway" is this host. */
  addHosts?: string[];
  /** Asks registries for images by tag again instead of using what is known of them. */
  pull?: boolean;
  /** Network of RUN where `--network` says nothing else; default "default", which is the host's. */
  network?: "default" | "none" | "host";
  /** What the Dockerfile may do beyond the usual; also has to be allowed by the server. */
  allow?: Entitlement[];
}

/** Where the result goes and what goes with it. */
export interface BuildDelivery {
  /** Default: the image, pushed under `tags`. Their `dest` is the client's affair. */
  outputs?: OutputSpec[];
  /** As `--annotation` has them. */
  annotations?: string[];
  /** Caches of other machines; one that is not there is a warning. */
  cacheFrom?: CacheFromSpec[];
  cacheTo?: CacheToSpec[];
  /** The caller's logins at registries, by host; they go before the server's own. */
  logins?: ReadonlyMap<string, Login>;
  /** Host of the registry that names without one mean; default the server's own. */
  registry?: string;
  /** What is attested about images that are pushed or put in an OCI archive. */
  attest?: AttestSpec[];
}

export interface BuildOptions {
  onEvent: (event: BuildEvent) => void;
  signal?: AbortSignal;
}

export interface Builder extends AsyncDisposable {
  /**
   * Builds and publishes. Throws `dockerfile_invalid`, `context_invalid`, `build_failed` (detail: line,
   * command, exitCode, output) or what storage threw; events tell the story until then.
   */
  build(request: BuildRequest, options: BuildOptions): Promise<BuildResult>;
  /**
   * Archives that outputs gave, each to be taken once, and those that clients send for a build; absent
   * where another process keeps them.
   */
  readonly archives?: Pick<Spool, "take" | "put">;
  /** What it keeps for later builds; absent where another process keeps it. */
  readonly cache?: Pick<BuildCache, "usage" | "prune">;
  /** Makes trees of remote contexts, for named ones; absent where another process keeps them. */
  readonly contexts?: Pick<KeptContexts, "use">;
}
