/** Device nodes of the host for a container. */
import { join } from "node:path";
import { SvcError } from "../../base/errors.ts";
import { type DeviceNode, deviceNode } from "../../runtime/device_node.ts";

/** Nodes that the runtime makes for every container, or that are private to a container. */
const OWN = new Set([
  ...["null", "zero", "full", "random", "urandom", "tty", "console", "ptmx", "core"],
  ...["fd", "stdin", "stdout", "stderr", "pts", "shm", "mqueue"],
]);

/** "/dev/host[:/dev/inside[:rwm]]" as docker has it. Throws `spec_invalid` where there is no such device. */
export async function parseDevice(text: string, field: string): Promise<DeviceNode> {
  const [host, second, third] = text.split(":");
  const isAccess = second !== undefined && /^[rwm]+$/.test(second);
  const inside = second && !isAccess ? second : host;
  const access = third ?? (isAccess ? second : "rwm");
  const found = await deviceNode(host, inside, access).catch(() => undefined);
  if (found && /^[rwm]+$/.test(access) && inside.startsWith("/")) return found;
  throw new SvcError("spec_invalid", `Cannot use device ${text} (${field}): no such device`, {
    help: "write it as /dev/host[:/dev/inside[:rwm]]",
  });
}

/** Every device of the host, for a privileged container. */
export async function hostDevices(folder = "/dev"): Promise<DeviceNode[]> {
  const devices: DeviceNode[] = [];
  for await (const entry of Deno.readDir(folder)) {
    if (folder === "/dev" && OWN.has(entry.name) || entry.isSymlink) continue;
    const path = join(folder, entry.name);
    if (entry.isDirectory) devices.push(...await hostDevices(path));
    else {
      const device = await deviceNode(path, path, "rwm").catch(() => undefined);
      if (device) devices.push(device);
    }
  }
  return devices;
}
