/** A container's folder: its mounted root, config.json, and the files that are mounted into the container. */
import { dirname, join, posix } from "node:path";
import { writeFileAtomic } from "../../base/fs.ts";
import type { DeploySpec } from "../../api/deploy_spec.ts";
import { parseTmpfs } from "../../api/deploy_spec_text.ts";
import { hostResolvConf, hostsFile } from "./host_files.ts";
import { fillFolder } from "./volumes.ts";
import { type HostFacts, hostFacts } from "../../runtime/host_facts.ts";
import { locate } from "../../sys/rooted.ts";
import { encodeDocument } from "../../runtime/document.ts";
import {
  type Bounds,
  boundsOf,
  type NetworkMode,
  runtimeSpec,
  type RuntimeSpecOptions,
  type SpecMount,
  withBounds,
} from "../../runtime/spec.ts";
import { resolveUser } from "../../runtime/user.ts";
import type { BindMounts } from "./binds.ts";
import { hostDevices, parseDevice } from "./devices.ts";
import { AGENTS, type HostCompanions } from "./companions.ts";
import type { ContainerEngine } from "./engine.ts";
import { staticInit } from "./init.ts";
import { type Resolvers, resolvText } from "./resolvers.ts";
import type { NamedVolumes } from "./volumes.ts";
import type { InstanceRecord } from "./record.ts";

const INIT_TARGET = "/dev/svc-init";

const tmpfsMount = (text: string): SpecMount => ({ type: "tmpfs", ...parseTmpfs(text) });

export interface BundleInput {
  spec: DeploySpec;
  made: Pick<
    InstanceRecord,
    "key" | "replica" | "plan" | "choice" | "hostname" | "roles" | "companionMounts"
  >;
  /** The file of its network namespace. */
  netns: string;
  /** The name that {@linkcode ContainerRoots.unpack} returned. */
  image: string;
  signal?: AbortSignal;
}

export interface BundlesOptions {
  engine: Pick<ContainerEngine, "roots" | "cgroupPath">;
  /** A folder per instance. */
  folder: string;
  binds: BindMounts;
  volumes: NamedVolumes;
  resolvers: Resolvers;
  companions?: Pick<HostCompanions, "shared">;
  /** SVC_WORKLOAD_PIDS_LIMIT; 0: no limit. */
  pidsLimit: number;
}

/** `netns`: the file of the instance's namespace. */
export const networkMode = (
  { made: { choice: { kind } }, netns }: {
    made: Pick<InstanceRecord, "choice">;
    netns: string;
  },
): NetworkMode => kind === "bridges" ? { path: netns } : kind;

export class Bundles {
  #options: BundlesOptions;

  constructor(options: BundlesOptions) {
    this.#options = options;
  }

  path(key: string): string {
    return join(this.#options.folder, key);
  }

  async #mounts(rootfs: string, { spec, made, signal }: BundleInput): Promise<SpecMount[]> {
    const { binds, volumes, companions } = this.#options;
    const bundle = this.path(made.key);
    const mounts: SpecMount[] = [
      ...binds.mounts(made.key, spec),
      ...(spec.tmpfs ?? []).map(tmpfsMount),
      ...(made.plan.mounts ?? []).map((mount) => ({ type: "bind" as const, ...mount })),
    ];
    if (made.roles && companions) {
      const { agents, mounts: folder } = companions.shared(made.key);
      mounts.push({ type: "bind", source: agents, target: AGENTS, readOnly: true });
      for (const { source, ...mount } of made.companionMounts ?? []) {
        mounts.push({ type: "bind", source: join(folder, source), ...mount });
      }
    }
    for (const volume of spec.volumes) {
      const seed = locate(rootfs, volume.target).host;
      const { name, target, readOnly, labels } = volume;
      const source = await volumes.ensure(name, seed, { labels, signal });
      mounts.push({ type: "bind", source, target, readOnly });
    }
    const taken = new Set(mounts.map(({ target }) => posix.resolve(target)));
    const anonymous = (made.plan.volumes ?? []).filter((target) => !taken.has(target));
    for (const [index, target] of anonymous.entries()) {
      // Removed together with the instance's folder.
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

  /** Makes the folder with all its files. Returns a warning for each request that could not be granted. */
  async make(input: BundleInput): Promise<string[]> {
    const { spec, made } = input;
    const { plan } = made;
    const { engine, resolvers, pidsLimit } = this.#options;
    const bundle = this.path(made.key);
    await Deno.mkdir(bundle, { recursive: true, mode: 0o700 });
    const [resolv, rootfs] = await Promise.all([
      hostResolvConf(),
      engine.roots.mount(made.key, input.image),
    ]);
    const [user, mounts, facts, devices, init] = await Promise.all([
      resolveUser(rootfs, plan.user, spec.groupAdd),
      this.#mounts(rootfs, input),
      hostFacts(),
      spec.privileged
        ? hostDevices()
        : Promise.all((spec.devices ?? []).map((text, i) => parseDevice(text, `devices[${i}]`))),
      spec.init ? staticInit() : undefined,
    ]);
    const write = (name: string, text: string, mode?: number) =>
      Deno.writeTextFile(join(bundle, name), text, { mode });
    await Promise.all([
      write("hostname", `${made.hostname}\n`),
      // The container's mounts keep these files, so they are rewritten in place once the network exists.
      write("resolv.conf", resolvText(resolvers, spec, made.choice, resolv)),
      write("hosts", hostsFile({ hostname: made.hostname })),
    ]);
    const warnings: string[] = [];
    const args = [...plan.args];
    if (init) {
      mounts.push({ type: "bind", source: init, target: INIT_TARGET, readOnly: true });
      args.unshift(INIT_TARGET, "--");
    } else if (spec.init) {
      warnings.push("init: no static init on this host (apt-get install tini)");
    }
    const env = [...plan.env];
    for (const [name, value] of [["HOSTNAME", made.hostname], ["HOME", user.home]]) {
      if (!env.some((entry) => entry.startsWith(`${name}=`))) env.push(`${name}=${value}`);
    }
    if (pidsLimit && !facts.countsProcesses) {
      warnings.push("SVC_WORKLOAD_PIDS_LIMIT: this host's cgroups cannot count processes");
    }
    const options = this.#specOptions(input, facts);
    const generated = runtimeSpec({ ...options, rootfs, args, env, user, mounts, devices }, facts);
    await write("config.json", encodeDocument(generated.spec), 0o600);
    return [...warnings, ...generated.warnings];
  }

  #resources({ resources = {} }: DeploySpec, facts: HostFacts): RuntimeSpecOptions["resources"] {
    const { pidsLimit } = this.#options;
    return {
      memory: resources.memoryLimit,
      memoryReservation: resources.reservedMemory,
      cpus: resources.cpuLimit,
      pids: pidsLimit && facts.countsProcesses ? pidsLimit : undefined,
      cpuShares: resources.reservedCpu && Math.round(resources.reservedCpu * 1024),
    };
  }

  async boundsOf(spec: DeploySpec): Promise<Bounds> {
    const facts = await hostFacts();
    return boundsOf(this.#resources(spec, facts) ?? {}, facts);
  }

  /** The next start of the container has these bounds. */
  async bind(key: string, bounds: Bounds): Promise<void> {
    const path = join(this.path(key), "config.json");
    // Our own: the bundle's document.
    const text = await Deno.readTextFile(path);
    await writeFileAtomic(path, withBounds(text, bounds), { mode: 0o600 });
  }

  /** What the spec alone decides. */
  #specOptions(
    input: BundleInput,
    facts: HostFacts,
  ): Omit<RuntimeSpecOptions, "rootfs" | "args" | "env"> {
    const { spec, made } = input;
    const { engine } = this.#options;
    const security = spec.securityOpt ?? [];
    return {
      cwd: made.plan.workingDir,
      capAdd: spec.capAdd,
      capDrop: spec.capDrop,
      privileged: spec.privileged,
      hostname: made.hostname,
      readonlyRootfs: spec.readOnly,
      network: networkMode(input),
      pid: spec.pidMode === "host" ? "host" : "private",
      ipc: spec.ipcMode === "host" ? "host" : "private",
      cgroupPath: engine.cgroupPath(made.key),
      resources: this.#resources(spec, facts),
      rlimits: spec.ulimits,
      sysctls: spec.sysctls,
      terminal: spec.tty,
      noNewPrivileges: security.some((option) => /^no-new-privileges(:true|=true)?$/.test(option)),
      seccomp: security.includes("seccomp=unconfined") || security.includes("seccomp:unconfined")
        ? "unconfined"
        : "default",
      shmSize: spec.shmSize,
      annotations: { "svc.deployment": spec.name, "svc.replica": String(made.replica) },
    };
  }
}
