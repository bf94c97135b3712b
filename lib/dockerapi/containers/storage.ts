/** The folders, volumes and memory that a container is given. */
import type { MountSpec, VolumeSpec } from "../../api/deploy_spec.ts";
import { posix } from "../../base/path.ts";
import { refusalOf } from "../errors.ts";
import { idOf } from "../ids.ts";
import type { VolumeRecord } from "../volumes/record.ts";
import { keptLabels, type MountPoint } from "./record.ts";
import type { ContainerConfig, DockerMount, HostConfig } from "../bodies.ts";

export interface Storage {
  /** Folders and files of this machine. */
  binds: MountSpec[];
  volumes: VolumeSpec[];
  tmpfs: string[];
  mounts: MountPoint[];
  /** Volumes without a name of their own. */
  anonymous: string[];
  warnings: string[];
}

const refuse = refusalOf("create the container");

/** What a volume is made with, where that is not the usual. */
const madeWith = ({ driver, driverOpts, labels }: Partial<VolumeRecord>): Partial<VolumeSpec> => ({
  ...driver && driver !== "local" && { driver },
  ...driverOpts && Object.keys(driverOpts).length > 0 && { driverOpts },
  ...labels && Object.keys(labels).length > 0 && { labels: keptLabels(labels) },
});

/** Words of a bind that change nothing here. */
const NEUTRAL = ["rw", "consistent", "cached", "delegated", "rprivate", "private", "copy"];

/** Sockets of engines, and of the agent: what speaks to them would be root on this machine, or act as its user. */
const SOCKETS = /\/(docker|podman|containerd|svc-docker|svc\/agent)\.sock$/;

export interface StorageOptions {
  id: string;
  config: ContainerConfig;
  host: HostConfig;
  /** The socket that this API is served on. */
  socket: string;
  volume: (name: string) => VolumeRecord | undefined;
}

class Reading {
  readonly result: Storage = {
    ...{ binds: [], volumes: [], tmpfs: [], mounts: [], anonymous: [], warnings: [] },
  };
  readonly #options: StorageOptions;

  constructor(options: StorageOptions) {
    this.#options = options;
  }

  has(target: string): boolean {
    return this.result.mounts.some(({ Destination }) => Destination === target);
  }

  #point(point: Omit<MountPoint, "Propagation" | "Mode"> & { Mode?: string }): void {
    const { Type, Mode = "" } = point;
    this.result.mounts.push({ ...point, Mode, Propagation: Type === "bind" ? "rprivate" : "" });
  }

  bind(at: string, source: string, target: string, words: readonly string[]): void {
    if (SOCKETS.test(source) || source === this.#options.socket) {
      throw refuse(at, "an engine's own socket is not given to containers");
    }
    let readOnly = false;
    let selinux: MountSpec["selinux"];
    for (const word of words) {
      if (word === "ro") readOnly = true;
      else if (word === "z" || word === "Z") selinux = word === "Z" ? "private" : "shared";
      else if (!NEUTRAL.includes(word)) {
        throw refuse(at, `there is no ${word}: mounts stay private to the container`);
      }
    }
    const spec = { source, target, ...readOnly && { readOnly }, ...selinux && { selinux } };
    this.result.binds.push(spec);
    this.#point({
      Type: "bind",
      Source: source,
      Destination: target,
      Mode: words.join(","),
      RW: !readOnly,
    });
  }

  volume(name: string, target: string, readOnly: boolean, more: Partial<VolumeSpec> = {}): void {
    const own = madeWith(this.#options.volume(name) ?? {});
    const spec = { name, target, ...readOnly && { readOnly }, ...own, ...more };
    this.result.volumes.push(spec);
    this.#point({
      Type: "volume",
      Name: name,
      Source: `/volumes/${name}`,
      Destination: target,
      Driver: spec.driver ?? "local",
      Mode: readOnly ? "ro" : "z",
      RW: !readOnly,
    });
  }

  #copiesAnyway(at: string, word: string): void {
    const why = "an empty volume gets what the image has there";
    this.result.warnings.push(`${at}: ${word} has no effect: ${why}`);
  }

  unnamed(target: string, readOnly = false): void {
    const name = idOf(`${this.#options.id} ${target}`);
    this.result.anonymous.push(name);
    this.volume(name, target, readOnly);
  }

  text(text: string): void {
    const parts = text.split(":");
    const at = `the volume ${text}`;
    if (parts.length === 1) return this.unnamed(absolute(at, text));
    const [source, target, mode = ""] = parts;
    const words = mode.split(",").filter(Boolean);
    if (parts.length > 3) throw refuse(at, "it has too many colons");
    const place = absolute(at, target);
    if (source.startsWith("/")) return this.bind(at, plain(source), place, words);
    if (words.includes("nocopy")) this.#copiesAnyway(at, "nocopy");
    this.volume(source, place, words.includes("ro"));
  }

  mount(mount: DockerMount): void {
    const { Type = "", Source = "", Target = "", ReadOnly = false } = mount;
    const at = `the mount at ${Target}`;
    const target = absolute(at, Target);
    if (Type === "bind") {
      const { Propagation = "", NonRecursive: _, CreateMountpoint: _made, ...others } =
        mount.BindOptions ?? {};
      const other = Object.entries(others).find(([, value]) => value);
      if (other) throw refuse(at, `there is no ${other[0]}`);
      const words = [ReadOnly ? "ro" : "rw", ...Propagation ? [String(Propagation)] : []];
      return this.bind(at, plain(absolute(at, Source)), target, words);
    }
    if (Type === "volume") {
      const { NoCopy, Subpath, Labels, DriverConfig } = mount.VolumeOptions ?? {};
      if (Subpath) throw refuse(at, "svc mounts a volume as a whole");
      if (NoCopy) this.#copiesAnyway(at, "NoCopy");
      if (!Source) return this.unnamed(target, ReadOnly);
      const { Name: driver, Options } = DriverConfig ?? {};
      const made = { driver, driverOpts: Options ?? {}, labels: Labels ?? {} };
      return this.volume(Source, target, ReadOnly, madeWith(made));
    }
    if (Type === "tmpfs") {
      const { SizeBytes, Mode } = mount.TmpfsOptions ?? {};
      const size = SizeBytes ? [`size=${SizeBytes}`] : [];
      const mode = Mode ? [`mode=${(Mode & 0o7777).toString(8)}`] : [];
      return this.tmpfs(target, [...size, ...mode].join(","));
    }
    throw refuse(at, `svc has no mounts of type ${Type || "none"}`);
  }

  tmpfs(target: string, options: string): void {
    this.result.tmpfs.push(options ? `${target}:${options}` : target);
    this.#point({ Type: "tmpfs", Source: "", Destination: target, RW: true });
  }
}

function absolute(at: string, path: string): string {
  if (path.startsWith("/")) return plain(path);
  throw refuse(at, `${path || "an empty path"} is not absolute`);
}

const plain = (path: string) => posix.normalize(path).replace(/(?<=.)\/+$/, "");

/** Throws `argument_invalid`, naming the mount, for one that cannot be honoured. */
export function storageOf(options: StorageOptions): Storage {
  const { config, host } = options;
  const reading = new Reading(options);
  for (const text of host.Binds ?? []) reading.text(text);
  for (const mount of host.Mounts ?? []) reading.mount(mount);
  for (const [target, words] of Object.entries(host.Tmpfs ?? {})) {
    reading.tmpfs(absolute(`the tmpfs ${target}`, target), words);
  }
  for (const target of Object.keys(config.Volumes ?? {})) {
    const place = absolute(`the volume ${target}`, target);
    if (!reading.has(place)) reading.unnamed(place);
  }
  return reading.result;
}
