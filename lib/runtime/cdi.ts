/**
 * Devices from files of the Container Device Interface (CDI specification 1.0): the mounts, nodes and settings
 * that a container needs to use one.
 */
import { extname, join } from "node:path";
import { SvcError } from "../base/errors.ts";
import { namesIn } from "../base/fs.ts";
import { type DeviceNode, deviceNode } from "./device_node.ts";
import type { Hook } from "./spec.ts";

/** Folders where vendors' tools and people put the files. For a device in several folders, the last one counts. */
export const CDI_FOLDERS: readonly string[] = ["/etc/buildkit/cdi", "/etc/cdi", "/var/run/cdi"];

const ALLOWED = "org.mobyproject.buildkit.device.autoallow";
const CLASS = "org.mobyproject.buildkit.device.class";

export interface CdiDevice {
  /** "vendor.example/class=name". */
  name: string;
  /** "vendor.example/class". */
  kind: string;
  /** The file's author allows every build to use the device. */
  allowed: boolean;
  /** A class of devices by which it can also be requested. */
  className?: string;
  /** The edits of its file, then those of the device itself. */
  edits: Edits[];
}

/** The combined access of several devices. */
export interface DeviceAccess {
  env: string[];
  nodes: DeviceNode[];
  mounts: { source: string; target: string; readOnly: boolean; kind: "file" | "directory" }[];
  /** By the runtime specification's names: "createContainer"… */
  hooks: Record<string, Hook[]>;
  gids: number[];
}

/** Edits as written in a file. */
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
  return (await namesIn(folder)).filter((name) => [".json", ".yaml"].includes(extname(name)))
    .map((name) => join(folder, name));
}

/** Every device in the folders; `unread` lists files that could not be read. */
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
      // The file is named where a device is missing.
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
        // One object for all devices of the file: its edits are applied once.
        edits: [containerEdits, own].filter((edits) => edits !== undefined && edits !== null),
      });
    }
  }
  return { devices: [...devices.values()], unread };
}

/**
 * The devices that a request names: "vendor/kind=name" one device, "vendor/kind=*" all of a kind, "vendor/kind"
 * the first; a class, alone or in place of the name, all devices of that class.
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

/** Throws `unsupported` where a device needs what steps cannot have, or its node is not on this machine. */
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
