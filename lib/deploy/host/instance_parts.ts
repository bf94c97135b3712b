/** What an instance works with, and its callbacks. */
import type { DeploySpec } from "../../api/deploy_spec.ts";
import type { InstanceChange } from "../../api/deployment.ts";
import type { Logger } from "../../base/log.ts";
import type { WorkloadNamespaces } from "../namespaces.ts";
import type { Attachments } from "./attachments.ts";
import type { BindMounts } from "./binds.ts";
import type { Bundles } from "./bundle.ts";
import type { HostCompanions } from "./companions.ts";
import type { ContainerEngine } from "./engine.ts";

/** The parts that every instance works with. */
export interface InstanceParts {
  engine: ContainerEngine;
  attachments: Attachments;
  bundles: Bundles;
  binds: BindMounts;
  /** Absent: instances have no companions. */
  companions?: HostCompanions;
  namespaces: WorkloadNamespaces;
  /** Kinds of lib/deploy/privileges.ts. */
  allowPrivileged: readonly string[];
  log: Logger;
}

export interface InstanceHooks {
  /** Writes the record to disk. */
  save: () => Promise<void>;
  /** Called when the instance has addresses: the host's ports may lead to it. */
  attached: () => Promise<void>;
  /** Called when names, ports and the containers' files have to be updated; waits for the update. */
  moved: () => Promise<void>;
  /** As `moved`, without waiting. */
  changed: () => void;
  /** Called with the instance's events. */
  tell: (change: InstanceChange) => void;
}

/** The revision that an instance is made from. */
export interface Revision {
  spec: DeploySpec;
  /** Hash of the spec and the image. */
  hash: string;
}
