/** What the instances of a host engine work with, put together from the engine's settings. */
import type { Logger } from "../../base/log.ts";
import { cniDirs, CniPlugins } from "../../runtime/cni.ts";
import { BridgeDriver } from "../../runtime/network.ts";
import { Attachments } from "./attachments.ts";
import { BindMounts } from "./binds.ts";
import { Bundles } from "./bundle.ts";
import type { HostConfig } from "./config.ts";
import { WorkloadNamespaces } from "../namespaces.ts";
import type { HostCompanions } from "./companions.ts";
import type { ContainerEngine } from "./engine.ts";
import type { InstanceParts } from "./instance_parts.ts";
import type { NamedInstance } from "./names.ts";
import type { HostPaths } from "./paths.ts";
import { Resolvers } from "./resolvers.ts";
import { NamedVolumes } from "./volumes.ts";

export interface HostParts {
  engine: ContainerEngine;
  paths: HostPaths;
  config: HostConfig;
  /** What svc runs beside workloads; absent: nothing. */
  namespaces?: WorkloadNamespaces;
  /** Absent: instances have no companions. */
  companions?: HostCompanions;
  log: Logger;
}

/** `instances`: all of the host, for their names. */
export function hostParts(
  { engine, paths, config, namespaces = new WorkloadNamespaces(() => {}), companions, log }:
    HostParts,
  instances: () => readonly NamedInstance[],
): InstanceParts & { bridges: BridgeDriver; resolvers: Resolvers; volumes: NamedVolumes } {
  const { dns, pidsLimit, allowPrivileged } = config;
  const plugins = new CniPlugins(cniDirs(config.cniBinDir));
  const bridges = new BridgeDriver(plugins, paths.leases, {
    resolver: dns,
    tell: (text) => log.warn(text),
  });
  const resolvers = new Resolvers({ enabled: dns, log, instances });
  const binds = new BindMounts(paths.binds, config.allowBindSources);
  const volumes = new NamedVolumes(paths.volumes);
  const folder = paths.instances;
  const bundles = new Bundles({
    ...{ engine, folder, binds, volumes, resolvers, pidsLimit, companions },
  });
  const attachments = new Attachments(bridges, paths);
  return {
    ...{ engine, attachments, bundles, binds, namespaces, companions, allowPrivileged, log },
    ...{ bridges, resolvers, volumes },
  };
}
