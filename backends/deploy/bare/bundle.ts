/** A container's folder: mounted root, config.json, and the files that are mounted into it. */
import { dirname, join, posix } from "node:path";
import type { DeploySpec } from "../../../lib/api/deploy_spec.ts";
import { parseTmpfs } from "../../../lib/api/deploy_spec_text.ts";
import { hostResolvConf, hostsFile } from "../../../lib/deploy/host_files.ts";
import { fillFolder } from "../../../lib/deploy/volumes.ts";
import { hostFacts } from "../../../lib/runtime/host_facts.ts";
import { locate } from "../../../lib/sys/rooted.ts";
import { encodeDocument } from "../../../lib/runtime/document.ts";
import { type NetworkMode, runtimeSpec, type SpecMount } from "../../../lib/runtime/spec.ts";
import { resolveUser } from "../../../lib/runtime/user.ts";
import { bindMounts } from "./binds.ts";
import { resolvText } from "./container_files.ts";
import { hostDevices, parseDevice } from "./devices.ts";
import type { Host } from "./host.ts";
import { netnsPath } from "./networks.ts";
import type { InstanceRecord } from "./record.ts";

const INIT_TARGET = "/dev/svc-init";

export const bundlePath = (host: Host, key: string): string => join(host.paths.instances, key);
export const rootfsPath = (host: Host, key: string): string =>
  join(host.paths.instances, key, "rootfs");
export const snapshotId = (key: string): string => `bare-${key}`;

/** Mounts the instance's own tree; idempotent. */
export async function mountRoot(host: Host, key: string, parent?: string): Promise<void> {
  const snapshotter = await host.snapshotter();
  const id = snapshotId(key);
  const active = parent === undefined
    ? await snapshotter.active(id)
    : await snapshotter.prepare(id, parent);
  if (!active) throw new Error(`snapshot ${id} is not there`);
  await active.mount(rootfsPath(host, key));
}

export async function unmountRoot(host: Host, key: string): Promise<void> {
  const snapshotter = await host.snapshotter();
  const id = snapshotId(key);
  const active = await snapshotter.active(id);
  await active?.unmount(rootfsPath(host, key));
  await snapshotter.remove(id);
}

const tmpfsMount = (text: string): SpecMount => ({ type: "tmpfs", ...parseTmpfs(text) });

export interface BundleInput {
  spec: DeploySpec;
  record: InstanceRecord;
  /** Committed snapshot of the image. */
  parent: string;
  signal?: AbortSignal;
}

function networkMode(host: Host, input: BundleInput): NetworkMode {
  const { kind } = input.record.choice;
  return kind === "bridges" ? { path: netnsPath(host, input.record) } : kind;
}

async function mountsOf(host: Host, input: BundleInput): Promise<SpecMount[]> {
  const { spec, record, signal } = input;
  const bundle = bundlePath(host, record.key);
  const rootfs = rootfsPath(host, record.key);
  const mounts: SpecMount[] = [
    ...bindMounts(host, record.key, spec),
    ...(spec.tmpfs ?? []).map(tmpfsMount),
  ];
  for (const volume of spec.volumes) {
    const seed = locate(rootfs, volume.target).host;
    const source = await host.volumes.ensure(volume.name, seed, signal);
    mounts.push({ type: "bind", source, target: volume.target, readOnly: volume.readOnly });
  }
  const taken = new Set(mounts.map(({ target }) => posix.resolve(target)));
  const anonymous = (record.plan.volumes ?? []).filter((target) => !taken.has(target));
  for (const [index, target] of anonymous.entries()) {
    // It goes with the instance's folder.
    const source = join(bundle, "volumes", String(index));
    await Deno.mkdir(dirname(source), { recursive: true });
    await fillFolder(source, locate(rootfs, target).host, signal);
    mounts.push({ type: "bind", source, target });
  }
  for (const file of ["hosts", "resolv.conf", "hostname"]) {
    const target = `/etc/${file}`;
    if (mounts.some((mount) => mount.target === target)) continue;
    mounts.push({ type: "bind", source: join(bundle, file), target, readOnly: spec.readOnly });
  }
  return mounts;
}

/** Makes the folder and everything in it. Returns what could not be granted, in words. */
export async function makeBundle(host: Host, input: BundleInput): Promise<string[]> {
  const { spec, record } = input;
  const { plan } = record;
  const bundle = bundlePath(host, record.key);
  const rootfs = rootfsPath(host, record.key);
  await Deno.mkdir(bundle, { recursive: true, mode: 0o700 });
  const [resolv] = await Promise.all([
    hostResolvConf(),
    mountRoot(host, record.key, input.parent),
  ]);
  const [user, mounts, facts, devices, tools] = await Promise.all([
    resolveUser(rootfs, plan.user, spec.groupAdd),
    mountsOf(host, input),
    hostFacts(),
    spec.privileged
      ? hostDevices()
      : Promise.all((spec.devices ?? []).map((text, i) => parseDevice(text, `devices[${i}]`))),
    host.tools(),
    Deno.writeTextFile(join(bundle, "hostname"), `${record.hostname}\n`),
    // Bind mounts keep these files: they are written again in place once the network is there.
    Deno.writeTextFile(join(bundle, "resolv.conf"), resolvText(host, spec, record, resolv)),
    Deno.writeTextFile(join(bundle, "hosts"), hostsFile({ hostname: record.hostname })),
  ]);
  const warnings: string[] = [];
  const args = [...plan.args];
  if (spec.init && tools.init) {
    mounts.push({ type: "bind", source: tools.init, target: INIT_TARGET, readOnly: true });
    args.unshift(INIT_TARGET, "--");
  } else if (spec.init) {
    warnings.push("init: no static init on this host (apt-get install tini)");
  }
  const env = [...plan.env];
  for (const [name, value] of [["HOSTNAME", record.hostname], ["HOME", user.home]]) {
    if (!env.some((entry) => entry.startsWith(`${name}=`))) env.push(`${name}=${value}`);
  }
  const { pidsLimit } = host.config;
  if (pidsLimit && !facts.countsProcesses) {
    warnings.push("SVC_WORKLOAD_PIDS_LIMIT: this host's cgroups cannot count processes");
  }
  const security = spec.securityOpt ?? [];
  const generated = runtimeSpec({
    rootfs,
    args,
    env,
    cwd: plan.workingDir,
    user,
    mounts,
    capAdd: spec.capAdd,
    capDrop: spec.capDrop,
    privileged: spec.privileged,
    hostname: record.hostname,
    readonlyRootfs: spec.readOnly,
    network: networkMode(host, input),
    pid: spec.pidMode === "host" ? "host" : "private",
    ipc: spec.ipcMode === "host" ? "host" : "private",
    cgroupPath: host.config.systemdCgroup ? `system.slice:svc:${record.key}` : `/svc/${record.key}`,
    resources: {
      memory: spec.resources?.memoryLimit,
      memoryReservation: spec.resources?.reservedMemory,
      cpus: spec.resources?.cpuLimit,
      pids: pidsLimit && facts.countsProcesses ? pidsLimit : undefined,
      cpuShares: spec.resources?.reservedCpu && Math.round(spec.resources.reservedCpu * 1024),
    },
    rlimits: spec.ulimits,
    sysctls: spec.sysctls,
    devices,
    terminal: spec.tty,
    noNewPrivileges: security.some((option) => /^no-new-privileges(:true|=true)?$/.test(option)),
    seccomp: security.includes("seccomp=unconfined") || security.includes("seccomp:unconfined")
      ? "unconfined"
      : "default",
    shmSize: spec.shmSize,
    annotations: { "svc.deployment": spec.name, "svc.replica": String(record.replica) },
  }, facts);
  await Deno.writeTextFile(join(bundle, "config.json"), encodeDocument(generated.spec), {
    mode: 0o600,
  });
  return [...warnings, ...generated.warnings];
}
