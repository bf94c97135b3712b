/** Records of a host's deployments. */
import type { DeploySpec } from "../../api/deploy_spec.ts";
import type { PublishedPort } from "../../api/deployment.ts";
import type { InstanceUpdate } from "../../api/workload.ts";
import type { BridgeNetwork } from "../../runtime/bridge_network.ts";
import type { JsonRecords } from "../json_records.ts";
import type { BaseRecord } from "../record.ts";
import type { AttachedMount } from "../backend.ts";
import type { Roles } from "../caretakers.ts";
import type { ContainerPlan } from "../container_config.ts";
import type { CniResult } from "../../runtime/cni.ts";
import type { Addresses } from "../../runtime/network.ts";
import type { ProcessIdentity } from "./engine.ts";

export interface NetworkAttachment {
  network: BridgeNetwork;
  ifname: string;
  ip: string;
  /** On a network with IPv6. */
  ip6?: string;
  gateway?: string;
  aliases: string[];
  result: CniResult;
}

export type NetworkChoice =
  | { kind: "host" | "none" }
  | { kind: "bridges"; networks: ({ network: BridgeNetwork; aliases: string[] } & Addresses)[] };

/** The unchanging part of an instance's record: what it was made as. */
export interface MadeRecord {
  /** Unique on the host and never used again: "<deployment>-<replica>-<random>". */
  key: string;
  replica: number;
  plan: ContainerPlan;
  /** The networks that it is to be attached to. */
  choice: NetworkChoice;
  /** Name of its prepared namespace and attachment; absent: they are named by `key`. */
  endpoint?: string;
  hostname: string;
  /** Of its companion; absent: it has none. */
  roles?: Roles;
  /** As of `Attachments` in backend.ts. */
  secretEnv?: string;
  /** What its companion mounts for it; sources are below the companion's folder of mounts. */
  companionMounts?: readonly AttachedMount[];
  /** Host ports that lead to the instance, in turns with the other replicas. */
  ports: PublishedPort[];
}

/** The unchanging part alone. */
export function madeOf(record: MadeRecord): MadeRecord {
  const { key, replica, plan, choice, endpoint, hostname, ports } = record;
  const { roles, companionMounts, secretEnv } = record;
  return {
    ...{ key, replica, plan, choice, endpoint, hostname, ports },
    ...{ roles, companionMounts, secretEnv },
  };
}

export interface InstanceRecord extends MadeRecord {
  /**
   * "creating": not yet part of the deployment, removed if the server ends now; "ready": part of it;
   * "yielding": part of it, stopped for one that is to replace it; "leaving": replaced, its removal is under
   * way.
   */
  phase: "creating" | "ready" | "yielding" | "leaving";
  /** The revision that it was made from, where it differs from the deployment's: a roll-out that stopped halfway. */
  hash?: string;
  spec?: DeploySpec;
  /** Its attachments; filled in once they are known. */
  networks: NetworkAttachment[];
  process?: ProcessIdentity;
  /** Its processes are frozen. */
  paused?: boolean;
  /** What was changed of its spec since it was made. */
  amended?: InstanceUpdate;
  restarts: number;
  /** Restarts by the policy since the last run that counts as recovered. */
  attempts?: number;
  /** When the policy's next restart is due, in milliseconds since 1970. */
  due?: number;
  startedAt?: string;
  finishedAt?: string;
  exitCode?: number;
  message?: string;
}

export type DeploymentRecord = BaseRecord<InstanceRecord>;

export type DeploymentRecords = JsonRecords<DeploymentRecord>;
