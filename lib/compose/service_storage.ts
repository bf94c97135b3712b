/** The folders, volumes and memory of a service, as fields of a deployment spec. */
import type { MountSpec, VolumeSpec } from "../api/deploy_spec.ts";
import { parseBytes } from "../base/bytes.ts";
import type { Project } from "./project.ts";
import { refuse, replicasOf, type Subject, texts } from "./subject.ts";

interface Storage {
  mounts: MountSpec[];
  volumes: VolumeSpec[];
  tmpfs: string[];
}

interface CallerFolder {
  source: string;
  target: string;
  readOnly: boolean;
}

/** Where the service's data is: folders of a host, volumes, memory. */
export function storageOf(of: Subject): Storage {
  const storage: Storage = { mounts: [], volumes: [], tmpfs: [...of.service.tmpfs ?? []] };
  for (const [index, mount] of (of.service.volumes ?? []).entries()) {
    if (mount.type === "bind") {
      if (of.surroundings.localFolders) storage.mounts.push(bindOf(of, index));
    } else if (mount.type === "volume") storage.volumes.push(volumeOf(of, index));
    else if (mount.type === "tmpfs") {
      const { size, mode } = mount.tmpfs ?? {};
      const options = [
        ...(size === undefined ? [] : [`size=${parseBytes(String(size))}`]),
        ...(mode === undefined ? [] : [`mode=${Number(mode).toString(8)}`]),
      ].join(",");
      storage.tmpfs.push(options ? `${mount.target}:${options}` : mount.target);
    } else throw refuse(of, ["volumes", index, "type"], `svc has no mounts of type ${mount.type}`);
  }
  return storage;
}

function bindOf(of: Subject, index: number): MountSpec {
  const { source = "", target, read_only: readOnly, bind } = of.service.volumes![index];
  const { propagation, selinux } = bind ?? {};
  if (propagation && !["rprivate", "private"].includes(propagation)) {
    throw refuse(of, ["volumes", index, "bind", "propagation"], "mounts stay private");
  }
  return {
    source,
    target,
    ...(readOnly && { readOnly }),
    ...(selinux && { selinux: selinux === "Z" ? "private" : "shared" }),
  };
}

/** Folders and files of this machine that the service mounts, for a session that serves them. */
export function callerMounts({ service }: Subject): CallerFolder[] {
  return (service.volumes ?? []).flatMap(({ type, source = "", target, read_only: readOnly }) =>
    type === "bind"
      ? [{ source, target: target.replace(/(?<=.)\/+$/, ""), readOnly: readOnly ?? false }]
      : []
  );
}

/** The server's name of a project's volume, or of another one. */
export function volumeName(project: Project, key: string): string {
  return project.volumes[key]?.name ?? key;
}

/** The name of the volume that a service has at `target` without naming one. */
export function anonymousVolume({ name: project }: Project, service: string, target: string) {
  const place = target.replace(/[^a-zA-Z0-9]+/g, "-").replace(/^-+|-+$/g, "");
  return `${project}_anonymous_${service}_${place}`;
}

function volumeOf(of: Subject, index: number): VolumeSpec {
  const { loaded: { project }, name, service } = of;
  const { source, target, read_only: readOnly, volume = {} } = service.volumes![index];
  const options = volume as Record<string, unknown>;
  for (const field of ["nocopy", "subpath"]) {
    if (options[field]) {
      throw refuse(of, ["volumes", index, "volume", field], "svc mounts a volume as a whole");
    }
  }
  const common = { target, ...(readOnly && { readOnly }) };
  if (!source) {
    if (replicasOf(service) > 1) {
      throw refuse(
        of,
        ["volumes", index],
        "several instances cannot each have a volume without a name",
        "name it, or leave it out",
      );
    }
    return { name: anonymousVolume(project, name, target), ...common };
  }
  const known = project.volumes[source];
  if (known?.external) return { name: volumeName(project, source), ...common };
  const { driver, driver_opts: driverOpts, labels } = known ?? {};
  return {
    name: volumeName(project, source),
    ...common,
    ...(driver && { driver }),
    ...(driverOpts && Object.keys(driverOpts).length > 0 && { driverOpts: texts(driverOpts) }),
    ...(labels && Object.keys(labels).length > 0 && { labels: texts(labels) }),
  };
}
