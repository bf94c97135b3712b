/** Device nodes of the host for a container. */
import { join } from "node:path";
import { SvcError } from "../../../lib/base/errors.ts";
import type { SpecDevice } from "../../../lib/runtime/spec.ts";

/** Made by the runtime for every container, or private to it. */
const OWN = new Set([
  ...["null", "zero", "full", "random", "urandom", "tty", "console", "ptmx", "core"],
  ...["fd", "stdin", "stdout", "stderr", "pts", "shm", "mqueue"],
]);

async function node(path: string, inside: string, access: string): Promise<SpecDevice | undefined> {
  const info = await Deno.stat(path);
  if (!info.isCharDevice && !info.isBlockDevice) return undefined;
  const rdev = BigInt(info.rdev ?? 0);
  return {
    path: inside,
    type: info.isBlockDevice ? "b" : "c",
    // glibc's encoding of dev_t
    major: Number(rdev >> 8n & 0xfffn | rdev >> 32n & 0xfffff000n),
    minor: Number(rdev & 0xffn | rdev >> 12n & 0xffffff00n),
    fileMode: (info.mode ?? 0o600) & 0o777,
    uid: info.uid ?? 0,
    gid: info.gid ?? 0,
    access,
  };
}

/** "/dev/host[:/dev/inside[:rwm]]" as docker has it. Throws `spec_invalid` where there is no such device. */
export async function parseDevice(text: string, field: string): Promise<SpecDevice> {
  const [host, second, third] = text.split(":");
  const isAccess = second !== undefined && /^[rwm]+$/.test(second);
  const inside = second && !isAccess ? second : host;
  const access = third ?? (isAccess ? second : "rwm");
  const found = await node(host, inside, access).catch(() => undefined);
  if (found && /^[rwm]+$/.test(access) && inside.startsWith("/")) return found;
  throw new SvcError("spec_invalid", `Cannot use device ${text} (${field}): no such device`, {
    help: "write it as /dev/host[:/dev/inside[:rwm]]",
  });
}

/** Every device of the host, for a privileged container. */
export async function hostDevices(folder = "/dev"): Promise<SpecDevice[]> {
  const devices: SpecDevice[] = [];
  for await (const entry of Deno.readDir(folder)) {
    if (folder === "/dev" && OWN.has(entry.name) || entry.isSymlink) continue;
    const path = join(folder, entry.name);
    if (entry.isDirectory) devices.push(...await hostDevices(path));
    else {
      const device = await node(path, path, "rwm").catch(() => undefined);
      if (device) devices.push(device);
    }
  }
  return devices;
}
