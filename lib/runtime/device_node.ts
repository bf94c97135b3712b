/** A device node of the host, as a container's specification describes it. */

export interface DeviceNode {
  path: string;
  type: "c" | "b";
  major: number;
  minor: number;
  fileMode?: number;
  uid?: number;
  gid?: number;
  /** "rwm" or part of it. */
  access: string;
}

/** Undefined where the file is not a device; throws where it is missing. */
export async function deviceNode(
  path: string,
  inside: string,
  access: string,
): Promise<DeviceNode | undefined> {
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
