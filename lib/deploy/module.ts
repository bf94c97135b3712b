/** How the composition root opens a deploy backend: what a row of `backends/deploy/mod.ts` loads. */
import type { Logger } from "../base/log.ts";
import type { ImageResolver, ResolvedImage } from "../oci/resolver.ts";
import type { Snapshotter } from "../snapshot/snapshotter.ts";
import type { DeployBackend } from "./backend.ts";

/** Values of the server's options that backends read, by the options' keys. */
export interface BackendSettings {
  bareRuntime: string;
  bareSystemdCgroup: boolean;
  bareDns: boolean;
  cniBinDir: string;
  cniSubnetBase: string;
  allowBindSources: readonly string[];
  /** Kinds of lib/deploy/privileges.ts. */
  allowPrivileged: readonly string[];
  /** 0: none. */
  workloadPidsLimit: number;
  /** Milliseconds. */
  workloadStartTimeout: number;
  hostNetwork?: string;
}

/** What the composition root hands to a backend. */
export interface BackendParts {
  dataDir: string;
  /** Folder that a reboot empties. */
  runDir: string;
  settings: BackendSettings;
  /** Opened on first use: it may need privileges that the rest does not. */
  snapshotter: () => Promise<Snapshotter>;
  images: ImageResolver;
  /** Name of the committed snapshot that holds the image's tree. */
  unpack: (
    snapshotter: Snapshotter,
    image: ResolvedImage,
    options: { onProgress?: () => void; signal?: AbortSignal },
  ) => Promise<string>;
  log: Logger;
}

/** What an entry's module gives. */
export interface BackendModule {
  open: (parts: BackendParts) => Promise<DeployBackend>;
  /** What ends the server's start instead of the first deploy. */
  validate?: (
    settings: BackendSettings,
    log: Logger,
    place: { dataDir: string; runDir: string },
  ) => Promise<void>;
  /** Workloads outlive the server: it is opened at the start, to take them over. */
  takesOver: boolean;
}
