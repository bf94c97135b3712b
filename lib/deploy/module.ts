/** How the composition root opens a deploy backend: what a row of `backends/deploy/mod.ts` loads. */
import type { Logger } from "../base/log.ts";
import type { DockerEndpoint } from "../docker/endpoint.ts";
import type { ImageResolver, ResolvedImage } from "../oci/resolver.ts";
import type { Snapshotter } from "../snapshot/snapshotter.ts";
import type { DeployBackend } from "./backend.ts";
import type { Caretakers } from "./caretakers.ts";
import type { WorkloadNamespaces } from "./namespaces.ts";

/** Where a server keeps its files. */
export interface ServerFolders {
  dataDir: string;
  /** A reboot empties it. */
  runDir: string;
}

/** What the composition root hands to a backend. */
export interface BackendParts extends ServerFolders {
  /** Opened on first use: it may need privileges that other work does not. */
  snapshotter: () => Promise<Snapshotter>;
  images: ImageResolver;
  /** Gives the name of the committed snapshot that holds the image's tree. */
  unpack: (
    snapshotter: Snapshotter,
    image: ResolvedImage,
    options: { onProgress?: () => void; signal?: AbortSignal },
  ) => Promise<string>;
  /** What svc runs beside workloads; absent: nothing, as in tests. */
  namespaces?: WorkloadNamespaces;
  /** The server's side of companions. Absent: there can be none, as in tests of other things. */
  caretakers?: Caretakers;
  log: Logger;
}

/** A container engine with the Docker Engine API, whose socket a builder in a container can be given. */
export interface SharedEngine {
  /** The engine's name in errors. */
  product: string;
  /** Throws `config_invalid`. */
  endpoint(folders: ServerFolders): DockerEndpoint;
  /** The variables by which a server uses the engine whose socket it sees at `socket`. */
  variables(socket: string): Readonly<Record<string, string>>;
}

/** A backend's module, bound to the backend's settings. */
export interface BackendModule {
  open: (parts: BackendParts) => Promise<DeployBackend>;
  /** Checks that end the server's start, instead of failing the first deploy. */
  validate?: (log: Logger, place: ServerFolders) => Promise<void>;
  /** True where workloads outlive the server: the backend is opened at the start to take them over. */
  takesOver: boolean;
  /** Absent: the backend's engine has no such API. */
  engine?: SharedEngine;
}
