/** Finds the programs the backend drives; what is missing is named with its package. */
import { SvcError } from "../../../lib/base/errors.ts";
import { run } from "../../../lib/base/process.ts";
import { createRuntime, runtimeVersion } from "../../../lib/runtime/runc.ts";
import type { BareConfig, Paths, Tools } from "./host.ts";

const FOLDERS = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/** Absolute path of a program, by PATH and then the usual folders. */
async function locate(name: string): Promise<string | undefined> {
  const { stdout } = await run("sh", ["-c", 'command -v -- "$1"', "sh", name]);
  const path = stdout.trim();
  if (path.startsWith("/")) return path;
  for (const folder of FOLDERS) {
    const info = await Deno.stat(`${folder}/${name}`).catch(() => undefined);
    if (info?.isFile) return `${folder}/${name}`;
  }
  return undefined;
}

async function require(name: string, packageName: string): Promise<string> {
  const path = await locate(name);
  if (path) return path;
  throw new SvcError("prerequisite_missing", `Cannot run containers: ${name} is not installed`, {
    help: `install the package ${packageName} (apt-get install ${packageName})`,
  });
}

/** SPEC: a runtime that does not validate is a startup error. */
export async function validateBareRuntime(binary: string): Promise<void> {
  try {
    await runtimeVersion(await locate(binary) ?? binary);
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    throw new SvcError("config_invalid", `Cannot use SVC_BARE_RUNTIME: ${error.message}`, {
      cause: error,
      help: error.help,
    });
  }
}

export async function findTools(config: BareConfig, paths: Paths): Promise<Tools> {
  if (Deno.uid() !== 0) {
    throw new SvcError("prerequisite_missing", "Cannot run containers: svc does not run as root", {
      help: "start `svc serve` as root, or choose another SVC_DEPLOY_BACKEND",
    });
  }
  const [runtimePath, conmon, , , init] = await Promise.all([
    locate(config.runtime),
    require("conmon", "conmon"),
    require("iptables", "iptables"),
    require("unshare", "util-linux"),
    staticInit(),
  ]);
  await Deno.mkdir(paths.runtime, { recursive: true, mode: 0o700 });
  const runtime = await createRuntime({
    binary: runtimePath ?? config.runtime,
    root: paths.runtime,
    systemdCgroup: config.systemdCgroup,
  });
  return { runtime, runtimePath: runtime.binary, conmon, init };
}

/** An init that runs in any root: it must not need a library. */
async function staticInit(): Promise<string | undefined> {
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
