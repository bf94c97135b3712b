/** What all steps of an engine share, and what the steps of one build share. */
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
import type { Flights } from "../../base/flights.ts";
import type { CacheRecord, CacheRecords } from "./records.ts";
import type { StepEvent } from "./reporter.ts";
import type { Trees } from "./trees.ts";
import type { StepTexts } from "./step_texts.ts";
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
  /** Limits the steps that run at once, over all builds. */
  slots: Semaphore;
  /** Most processes of one step at once. */
  stepProcesses?: number;
  /** Longest time of one step, in milliseconds. */
  stepTimeoutMs?: number;
  /** Most bytes of one download. */
  maxDownloadBytes?: number;
  /** Most bytes of one archive, or of one image's layers, unpacked. */
  maxUnpackedBytes?: number;
  /** Absent: images are kept only in the registries that they are pushed to. */
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
  /** Mounted stages whose files other steps read. */
  views: Views;
  /** Files that its steps only read. */
  texts: StepTexts;
  secrets?: SecretSource;
  ssh?: AgentSource;
  noCache: boolean;
  /** Caches imported from other machines. */
  imported?: ImportedCache;
  /** Stores the result's base image in the server's own registry; present where the image is pushed there. */
  keep?: (image: ResolvedImage, signal: AbortSignal) => KeptImage | undefined;
  /** SOURCE_DATE_EPOCH, where given; RUN sees it. */
  epoch?: number;
}

/** A step's result. */
export interface Outcome {
  key: string;
  /** Committed snapshot; absent: an empty root. */
  snapshot?: string;
  /** When the step was carried out, in milliseconds since 1970. */
  created: number;
  record?: CacheRecord;
  /** False where the result came from the cache. */
  ran: boolean;
}
