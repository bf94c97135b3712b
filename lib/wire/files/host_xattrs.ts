/** Extended attributes of files of this machine, by their descriptors. */
import { decodeRaw } from "../../base/raw_string.ts";
import { procPath } from "../../sys/fd.ts";
import { type Bytes, callElsewhere, cbytes } from "../../sys/system_call.ts";
import { MAX_XATTR } from "./node.ts";

/** True for attributes in the user's namespace; others may grant rights on this machine. */
export const isOwnXattr = (name: string) => name.startsWith("user.") && name.length > 5;

export async function getHostXattr(fd: number, name: string): Promise<Bytes> {
  const value = new Uint8Array(new ArrayBuffer(MAX_XATTR));
  const path = cbytes(procPath(fd));
  const size = await callElsewhere("getxattr", path, cbytes(name), value, value.length);
  return value.subarray(0, size);
}

export async function listHostXattrs(fd: number): Promise<string[]> {
  const names = new Uint8Array(new ArrayBuffer(MAX_XATTR));
  const size = await callElsewhere("listxattr", cbytes(procPath(fd)), names, names.length);
  return decodeRaw(names.subarray(0, size)).split("\0").filter(isOwnXattr);
}
