/** The init of `init: true`, where the host has one. */
import { locate } from "../../base/locate.ts";

/** The path of an init that runs in any root, so it must be statically linked. */
export async function staticInit(): Promise<string | undefined> {
  for (const name of ["tini-static", "catatonit", "docker-init"]) {
    const path = await locate(name);
    if (path && await isStatic(path)) return path;
  }
  return undefined;
}

/** True for an ELF file without a PT_INTERP segment (type 3): no dynamic loader. */
async function isStatic(path: string): Promise<boolean> {
  const head = new Uint8Array(4096);
  // Our own: a program of the host.
  const file = await Deno.open(path);
  try {
    await file.read(head);
  } finally {
    file.close();
  }
  const view = new DataView(head.buffer);
  if (view.getUint32(0) !== 0x7f454c46 || head[4] !== 2) return false;
  const offset = Number(view.getBigUint64(32, true));
  const size = view.getUint16(54, true);
  const count = view.getUint16(56, true);
  for (let i = 0; i < count; i++) {
    const at = offset + i * size;
    if (at + 4 > head.length) return false;
    if (view.getUint32(at, true) === 3) return false;
  }
  return true;
}
