/** The JSON documents of the OCI Image Specification 1.1 and their docker counterparts. */

export const MEDIA = {
  manifest: "application/vnd.oci.image.manifest.v1+json",
  index: "application/vnd.oci.image.index.v1+json",
  config: "application/vnd.oci.image.config.v1+json",
  empty: "application/vnd.oci.empty.v1+json",
  layerTar: "application/vnd.oci.image.layer.v1.tar",
  layerGzip: "application/vnd.oci.image.layer.v1.tar+gzip",
  layerZstd: "application/vnd.oci.image.layer.v1.tar+zstd",
  dockerManifest: "application/vnd.docker.distribution.manifest.v2+json",
  dockerList: "application/vnd.docker.distribution.manifest.list.v2+json",
  dockerConfig: "application/vnd.docker.container.image.v1+json",
  dockerLayerGzip: "application/vnd.docker.image.rootfs.diff.tar.gzip",
  dockerForeignLayerGzip: "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
} as const;

/** "sha256:<64 hex>" or "sha512:<128 hex>"; made by `parseDigest` of digest.ts. */
export type Digest = string;

export interface Descriptor {
  mediaType: string;
  digest: Digest;
  /** Bytes. */
  size: number;
  annotations?: Record<string, string>;
  platform?: Platform;
  artifactType?: string;
  urls?: string[];
  data?: string;
}

export interface Platform {
  os: string;
  architecture: string;
  variant?: string;
  "os.version"?: string;
  "os.features"?: string[];
}

export interface Manifest {
  schemaVersion: 2;
  mediaType?: string;
  artifactType?: string;
  config: Descriptor;
  layers: Descriptor[];
  subject?: Descriptor;
  annotations?: Record<string, string>;
}

export interface Index {
  schemaVersion: 2;
  mediaType?: string;
  artifactType?: string;
  manifests: Descriptor[];
  subject?: Descriptor;
  annotations?: Record<string, string>;
}

export interface HistoryEntry {
  created?: string;
  created_by?: string;
  author?: string;
  comment?: string;
  empty_layer?: boolean;
}

/** What a container is started with: the `config` member of an image config. */
export interface ContainerConfig {
  User?: string;
  ExposedPorts?: Record<string, Record<string, never>>;
  Env?: string[];
  Entrypoint?: string[];
  Cmd?: string[];
  Volumes?: Record<string, Record<string, never>>;
  WorkingDir?: string;
  Labels?: Record<string, string>;
  StopSignal?: string;
  Shell?: string[];
  OnBuild?: string[];
  /** Nanoseconds, as docker writes them. */
  Healthcheck?: {
    Test?: string[];
    Interval?: number;
    Timeout?: number;
    StartPeriod?: number;
    StartInterval?: number;
    Retries?: number;
  };
  ArgsEscaped?: boolean;
}

export interface ImageConfig extends Platform {
  created?: string;
  author?: string;
  config?: ContainerConfig;
  rootfs: { type: "layers"; diff_ids: Digest[] };
  history?: HistoryEntry[];
}
