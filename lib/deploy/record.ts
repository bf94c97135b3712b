/** What a server that deploys itself remembers of a deployment, whatever runs its instances. */
import type { DeploySpec } from "../api/deploy_spec.ts";

export interface BaseRecord<Instance> {
  version: 1;
  name: string;
  /** The spec that was applied last. */
  spec: DeploySpec;
  /** Hash of the spec and the image's digest: equal means unchanged. */
  hash: string;
  image: string;
  imageDigest: string;
  /** Stopped on purpose. */
  stopped: boolean;
  /** What was asked for and is not done yet: a later server does it. */
  pending?: "start" | "stop" | "restart";
  /** Being deleted. */
  deleting: boolean;
  createdAt: string;
  updatedAt: string;
  warnings: string[];
  error?: string;
  instances: Instance[];
}

/** The record of a deployment that has no instances yet. */
export function emptyRecord<Instance>(spec: DeploySpec): BaseRecord<Instance> {
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
