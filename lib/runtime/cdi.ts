/**
 * Devices as files of the Container Device Interface describe them (CDI specification 1.0): what a container
 * gets so that it can use one.
 */
import { extname, join } from "node:path";
import { SvcError } from "../base/errors.ts";
import { type DeviceNode, deviceNode } from "./device_node.ts";
import type { Hook } from "./spec.ts";

/** Where vendors' tools and people put the files; of one device the last folder's counts. */
export const CDI_FOLDERS: readonly string[] = ["/etc/buildkit/cdi", "/etc/cdi", "/var/run/cdi"];

const ALLOWED = "org.mobyproject.buildkit.device.autoallow";
const CLASS = "org.mobyproject.buildkit.device.class";

export interface CdiDevice {
  /** "vendor.example/class=name". */
  name: string;
  /** "vendor.example/class". */
  kind: string;
  /** Who wrote the file lets every build use it. */
  allowed: boolean;
  /** What it may be asked for as besides, with others. */
  className?: string;
  /** The device's own, and before them those of its file. */
  edits: Edits[];
}

/** What devices come to, all together. */
export interface DeviceAccess {
  env: string[];
  nodes: DeviceNode[];
  mounts: { source: string; target: string; readOnly: boolean; kind: "file" | "directory" }[];
  /** By the runtime specification's names: "createContainer"… */
  hooks: Record<string, Hook[]>;
  gids: number[];
}

/** As the file has it. */
interface Edits {
  env?: string[];
  deviceNodes?: {
    path: string;
    hostPath?: string;
    type?: string;
    major?: number;
    minor?: number;
    fileMode?: number;
    permissions?: string;
    uid?: number;
    gid?: number;
  }[];
  mounts?: { hostPath: string; containerPath: string; options?: string[]; type?: string }[];
  hooks?: (Hook & { hookName: string })[];
  additionalGids?: number[];
}
const EDITS = ["env", "deviceNodes", "mounts", "hooks", "additionalGids"];

interface SpecFile {
  kind: string;
  annotations?: Record<string, unknown>;
  containerEdits?: Edits;
  devices: { name: string; annotations?: Record<string, unknown>; containerEdits?: Edits }[];
}

const isTrue = (value: unknown) => value === true || value === "true" || value === "1";

function isSpec(value: unknown): value is SpecFile {
  const spec = value as Partial<SpecFile> | null;
  return typeof spec?.kind === "string" && Array.isArray(spec.devices) &&
    spec.devices.every((device) => typeof device?.name === "string");
}

async function filesIn(folder: string): Promise<string[]> {
  try {
    const names = await Array.fromAsync(Deno.readDir(folder), ({ name }) => name);
    return names.filter((name) => [".json", ".yaml"].includes(extname(name))).sort()
      .map((name) => join(folder, name));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

/** Every device that the folders describe; `unread` are files that could not be made out. */
export async function readDevices(
  folders: readonly string[] = CDI_FOLDERS,
): Promise<{ devices: CdiDevice[]; unread: string[] }> {
  const devices = new Map<string, CdiDevice>();
  const unread: string[] = [];
  for (const path of (await Promise.all(folders.map(filesIn))).flat()) {
    const { parse } = await import("yaml");
    let spec: unknown;
    try {
      // Our own: the host's CDI files.
      spec = parse(await Deno.readTextFile(path));
    } catch {
      // It is named below where a device is missed.
    }
    if (!isSpec(spec)) {
      unread.push(path);
      continue;
    }
    const { kind, containerEdits } = spec;
    for (const { name, annotations, containerEdits: own } of spec.devices) {
      const notes = { ...spec.annotations, ...annotations };
      const full = `${kind}=${name}`;
      devices.set(full, {
        name: full,
        kind,
        allowed: isTrue(notes[ALLOWED]),
        ...(typeof notes[CLASS] === "string" && { className: notes[CLASS] }),
        // The file's edits are one object for all its devices: they are made once.
        edits: [containerEdits, own].filter((edits) => edits !== undefined && edits !== null),
      });
    }
  }
  return { devices: [...devices.values()], unread };
}

/**
 * What a request means: "vendor/kind=name" one device, "vendor/kind=*" all of a kind, "vendor/kind" the
 * first; a class, alone or in place of the name, those that say they are of it.
 */
export function matchDevices(devices: readonly CdiDevice[], request: string): CdiDevice[] {
  if (!request.includes("/")) return devices.filter(({ className }) => className === request);
  if (request.endsWith("=*")) {
    return devices.filter(({ kind }) => kind === request.slice(0, -"=*".length));
  }
  const found = devices.find(({ name, kind }) => name === request || kind === request);
  if (found) return [found];
  return devices.filter(({ kind, className }) => `${kind}=${className}` === request);
}

/** Throws `unsupported` where a device asks for what steps cannot have, or is not on this machine. */
export async function deviceAccess(devices: readonly CdiDevice[]): Promise<DeviceAccess> {
  const access: DeviceAccess = { env: [], nodes: [], mounts: [], hooks: {}, gids: [] };
  const made = new Set<Edits>();
  for (const { name, edits } of devices) {
    for (const one of edits) {
      if (made.has(one)) continue;
      made.add(one);
      await apply(access, name, one);
    }
  }
  return access;
}

function refused(name: string, why: string): SvcError {
  return new SvcError("unsupported", `Cannot use device ${name}: ${why}`, {
    help: "see its CDI file",
  });
}

async function apply(access: DeviceAccess, name: string, edits: Edits): Promise<void> {
  const other = Object.keys(edits).find((key) => !EDITS.includes(key));
  if (other !== undefined) throw refused(name, `its ${other} are not known here`);
  access.env.push(...edits.env ?? []);
  for (const { path, hostPath = path, permissions = "rwm", ...given } of edits.deviceNodes ?? []) {
    const node = await deviceNode(hostPath, path, permissions).catch(() => undefined);
    if (!node) throw refused(name, `there is no device ${hostPath} on this machine`);
    const { fileMode, uid, gid } = given;
    access.nodes.push({
      ...node,
      ...(fileMode !== undefined && { fileMode }),
      ...(uid !== undefined && { uid }),
      ...(gid !== undefined && { gid }),
    });
  }
  for (const { hostPath, containerPath, options = [], type = "bind" } of edits.mounts ?? []) {
    if (type !== "bind" && type !== "none" && type !== "") {
      throw refused(name, `it mounts a ${type} at ${containerPath}`);
    }
    const found = await Deno.stat(hostPath).catch(() => undefined);
    if (!found) throw refused(name, `there is no ${hostPath} on this machine`);
    access.mounts.push({
      source: hostPath,
      target: containerPath,
      readOnly: options.includes("ro"),
      kind: found.isDirectory ? "directory" : "file",
    });
  }
  for (const { hookName, ...hook } of edits.hooks ?? []) {
    (access.hooks[hookName] ??= []).push(hook);
  }
  access.gids.push(...edits.additionalGids ?? []);
}
