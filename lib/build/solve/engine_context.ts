/** What every step of every build of one engine shares, and what those of one build do. */
import type { Logger } from "../../base/log.ts";
import type { Semaphore } from "../../base/mutex.ts";
import type { ResolvedImage } from "../../oci/resolver.ts";
import type { Snapshotter } from "../../snapshot/snapshotter.ts";
import type { UnpackOptions } from "../../snapshot/unpack.ts";
import type { ImportedCache } from "../cache/import.ts";
import type { Context } from "../context/receive.ts";
import type { Executor } from "../executor.ts";
import type { StepNetworks } from "../networks.ts";
import type { ImageStore } from "../worker.ts";
import type { Planners } from "../plan/planners.ts";
import type { AgentSource, SecretSource } from "../inputs.ts";
import type { KeptImage } from "./base_keeper.ts";
import type { CacheMounts } from "./cache_mounts.ts";
import type { CopiedFolders } from "./copied_folders.ts";
import type { Flights } from "./flights.ts";
import type { CacheRecord, CacheRecords } from "./records.ts";
import type { StepEvent } from "./reporter.ts";
import type { Trees } from "./trees.ts";
import type { Views } from "./views.ts";
import type { Workspace } from "./workspace.ts";

/** Gives the name of the image's committed snapshot (lib/snapshot/unpack.ts). */
export type Unpack = (image: ResolvedImage, options: UnpackOptions) => Promise<string>;

export interface Engine {
  snapshotter: Snapshotter;
  executor: Executor;
  networks: StepNetworks;
  records: CacheRecords;
  workspace: Workspace;
  planners: Planners;
  copied: CopiedFolders;
  cacheMounts: CacheMounts;
  flights: Flights<Outcome, StepEvent>;
  /** Steps at once, over all builds. */
  slots: Semaphore;
  /** Processes of one step at once, at most. */
  stepProcesses?: number;
  /** Milliseconds of one step, at most. */
  stepTimeoutMs?: number;
  /** Bytes of one download, at most. */
  maxDownloadBytes?: number;
  /** Bytes that one archive, or one image's layers, may have unpacked. */
  maxUnpackedBytes?: number;
  /** Absent: images stand where they are pushed to, and nowhere else. */
  imageStore?: ImageStore;
  unpack: Unpack;
  /** Folders of CDI files; absent: the usual ones. */
  cdiFolders?: readonly string[];
  log: Logger;
}

export interface BuildState {
  /** Name of the Dockerfile in messages. */
  file: string;
  context: Context;
  /** Trees from outside that this build has opened. */
  trees: Trees;
  /** Stages whose files its steps read. */
  views: Views;
  secrets?: SecretSource;
  ssh?: AgentSource;
  noCache: boolean;
  /** Caches of other machines. */
  imported?: ImportedCache;
  /** For the base image of the result, where that goes to the own registry. */
  keep?: (image: ResolvedImage, signal: AbortSignal) => KeptImage | undefined;
  /** SOURCE_DATE_EPOCH where it was given: RUN sees it. */
  epoch?: number;
}

/** A step's result. */
export interface Outcome {
  key: string;
  /** Committed snapshot; absent: an empty root. */
  snapshot?: string;
  /** When it came about; milliseconds since 1970. */
  created: number;
  record?: CacheRecord;
  /** False where the cache answered. */
  ran: boolean;
}
