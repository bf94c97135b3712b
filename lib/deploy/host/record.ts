/** Records of a host's deployments. */
import type { DeploySpec } from "../../api/deploy_spec.ts";
import type { PublishedPort } from "../../api/deployment.ts";
import { JsonRecords } from "../json_records.ts";
import type { AttachedMount } from "../backend.ts";
import type { Roles } from "../caretakers.ts";
import type { ContainerPlan } from "../container_config.ts";
import type { CniResult } from "../../runtime/cni.ts";
import type { Addresses, BridgeNetwork } from "../../runtime/network.ts";
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
  /** The portmap plugin leads its ports to it: from versions before the server wrote the rules itself. */
  published?: boolean;
  process?: ProcessIdentity;
  /** Its processes are frozen. */
  paused?: boolean;
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

export interface DeploymentRecord {
  version: 1;
  name: string;
  spec: DeploySpec;
  /** Hash of the spec and the image's digest: equal means unchanged. */
  hash: string;
  image: string;
  imageDigest: string;
  /** Stopped on purpose. */
  stopped: boolean;
  /** Being deleted. */
  deleting: boolean;
  createdAt: string;
  updatedAt: string;
  warnings: string[];
  error?: string;
  instances: InstanceRecord[];
}

/** The record of a deployment that has no instances yet. */
export function emptyRecord(spec: DeploySpec): DeploymentRecord {
  const now = new Date().toISOString();
  return {
    version: 1,
    name: spec.name,
    spec,
    hash: "",
    image: spec.image,
    imageDigest: "",
    stopped: false,
    deleting: false,
    createdAt: now,
    updatedAt: now,
    warnings: [],
    instances: [],
  };
}

/** Records of earlier versions name the ports at the first replica only: copies them to the others. */
function givePorts({ instances }: DeploymentRecord): void {
  if (!instances.some(({ published }) => published !== undefined)) return;
  const ready = instances.filter(({ phase }) => phase === "ready");
  const ports = ready.find(({ replica }) => replica === 0)?.ports ?? [];
  for (const one of ready) one.ports = ports;
}

export class RecordStore extends JsonRecords<DeploymentRecord> {
  override async load(): Promise<DeploymentRecord[]> {
    const records = await super.load();
    for (const record of records) givePorts(record);
    return records;
  }
}
