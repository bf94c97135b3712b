/** What a server is started with: the settings, the backends that they select, and who ends it. */
import type { Logger } from "../base/log.ts";
import type { BuildWorker } from "../build/worker.ts";
import type { Settings } from "../config/table.ts";
import type { BackendModule } from "../deploy/module.ts";
import type { ObjectStore } from "../store/object_store.ts";
import type { Tunnels } from "../tunnel/tunnels.ts";
import type { ServerHost } from "./host.ts";
import type { Lifecycle } from "./lifecycle.ts";
import type { Part } from "./subsystem.ts";

/** What the server is started with. */
export interface Given {
  settings: Settings;
  env: Readonly<Record<string, string | undefined>>;
  log: Logger;
  lifecycle: Lifecycle;
  host: ServerHost;
  chosen: ChosenBackends;
  stop: StopSignals;
}

/** The backends that the settings select; each is loaded on first use. */
export interface ChosenBackends {
  deploy: {
    name: string;
    /** False where this build of svc does not contain the backend. */
    inBuild: boolean;
    /** The engine has an image store that svc can read: the ability `images`. */
    hasImages: boolean;
    /** It takes pushes. */
    takesPushes: boolean;
    load: () => Promise<BackendModule>;
    /** Another backend of this build that would work on this host as it is. */
    otherwise: () => Promise<string | undefined>;
  };
  worker: {
    open: (
      parts: { root: string; state: string; runDir: string; log: Logger },
    ) => Promise<BuildWorker>;
  };
  storage: {
    /** The location without credentials: for people and logs. */
    shown: string;
    /** True where a setting names the storage, false for the default. */
    given: boolean;
    open: (env: Given["env"]) => Promise<ObjectStore>;
    /** For a registry that keeps nothing of its own. */
    openEmpty: () => Promise<ObjectStore>;
  };
  tunnels: () => Tunnels;
}

export interface StopSignals {
  /** Aborts when the server is to end. */
  first: AbortSignal;
  /** Aborts when it is to end without waiting. */
  hurry: AbortSignal;
  /** Milliseconds that requests in flight have. */
  graceMs: number;
}

/** One of the things given, as a part that others need. */
const part = <K extends keyof Given>(name: K): Part<Given[K]> => ({ name });

export const GIVEN = {
  settings: part("settings"),
  env: part("env"),
  log: part("log"),
  lifecycle: part("lifecycle"),
  host: part("host"),
  chosen: part("chosen"),
  stop: part("stop"),
};
