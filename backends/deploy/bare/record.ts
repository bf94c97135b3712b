/** What is remembered of deployments on disk: one JSON file each, replaced atomically. */
import { join } from "node:path";
import {
  ensureDir,
  exists,
  readJson,
  removeTree,
  syncDir,
  writeFileAtomic,
} from "../../../lib/base/fs.ts";
import { asSvcError } from "../../../lib/base/errors.ts";
import type { DeploySpec } from "../../../lib/api/deploy_spec.ts";
import type { PublishedPort } from "../../../lib/api/deployment.ts";
import type { ContainerPlan } from "../../../lib/deploy/container_config.ts";
import type { CniResult } from "../../../lib/runtime/cni.ts";
import type { BridgeNetwork } from "../../../lib/runtime/network.ts";
import type { ProcessIdentity } from "./process.ts";

export interface NetworkAttachment {
  network: BridgeNetwork;
  ifname: string;
  ip: string;
  gateway?: string;
  aliases: string[];
  result: CniResult;
}

export type NetworkChoice =
  | { kind: "host" | "none" }
  | { kind: "bridges"; networks: { network: BridgeNetwork; aliases: string[] }[] };

export interface InstanceRecord {
  /** Unique on the host and never used again: "<deployment>-<replica>-<random>". */
  key: string;
  replica: number;
  /**
   * "creating": not yet part of the deployment, removed if the server ends now; "ready": part of it;
   * "leaving": replaced, its removal is under way.
   */
  phase: "creating" | "ready" | "leaving";
  plan: ContainerPlan;
  /** What it is to be attached to. */
  choice: NetworkChoice;
  /** What it is attached to: filled in once that is known. */
  networks: NetworkAttachment[];
  /** Name of its namespace and attachment where they were made ahead; else they are named by `key`. */
  endpoint?: string;
  hostname: string;
  ports: PublishedPort[];
  /** True where rules for `ports` are in place, or may be. */
  published: boolean;
  process?: ProcessIdentity;
  restarts: number;
  startedAt?: string;
  finishedAt?: string;
  exitCode?: number;
  message?: string;
}

export interface DeploymentRecord {
  version: 1;
  name: string;
  spec: DeploySpec;
  /** Of the spec and the image's digest: equal means unchanged. */
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

/** Of a deployment that has nothing yet. */
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

export class RecordStore {
  readonly root: string;

  constructor(root: string) {
    this.root = root;
  }

  async load(): Promise<DeploymentRecord[]> {
    if (!await exists(this.root)) return [];
    const records: DeploymentRecord[] = [];
    for await (const entry of Deno.readDir(this.root)) {
      // Of a write that a crash cut off: it holds a spec, whose secrets are not to stay behind.
      if (entry.name.includes(".json.tmp-")) await removeTree(join(this.root, entry.name));
      if (!entry.isFile || !entry.name.endsWith(".json")) continue;
      const record = await readJson<DeploymentRecord>(join(this.root, entry.name));
      if (record) records.push(record);
    }
    return records.sort((a, b) => a.name < b.name ? -1 : 1);
  }

  /** Durable when it resolves. */
  async save(record: DeploymentRecord): Promise<void> {
    try {
      await ensureDir(this.root, 0o700);
      await writeFileAtomic(join(this.root, `${record.name}.json`), JSON.stringify(record), {
        mode: 0o600,
      });
    } catch (error) {
      throw asSvcError(error, `Cannot put deployment ${record.name} on record`);
    }
  }

  async remove(name: string): Promise<void> {
    if (!await exists(this.root)) return;
    await removeTree(join(this.root, `${name}.json`));
    await syncDir(this.root);
  }
}
