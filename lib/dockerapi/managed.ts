/** The server's own volumes and networks; a backend without them has none. */
import type { NetworkStatus, VolumeStatus } from "../api/workload.ts";
import { listManaged, type ManagedKind, removeManaged } from "../client/workloads.ts";
import type { ApiBase } from "./base.ts";
import { unless } from "./errors.ts";

interface Statuses {
  volumes: VolumeStatus;
  networks: NetworkStatus;
}

export async function listOnServer<K extends ManagedKind>(
  api: ApiBase,
  kind: K,
  signal?: AbortSignal,
): Promise<Statuses[K][]> {
  const found = await listManaged(api.client(signal), kind).catch(unless("unsupported"));
  return (found ?? []) as Statuses[K][];
}

/** One that no container has had yet is not on the server. Throws `conflict` where a deployment has it. */
export const removeFromServer = (api: ApiBase, kind: ManagedKind, name: string): Promise<void> =>
  removeManaged(api.client(), kind, name).catch(unless("not_found", "unsupported"));
