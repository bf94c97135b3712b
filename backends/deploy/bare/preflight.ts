/** Finds the programs the backend drives; what is missing is named with its package. */
import { SvcError } from "../../../lib/base/errors.ts";
import { locate } from "../../../lib/base/locate.ts";
import { hostFacts } from "../../../lib/runtime/host_facts.ts";
import { type ProofPlace, proven } from "../../../lib/runtime/proof.ts";
import { createRuntime } from "../../../lib/runtime/runc.ts";
import type { BareConfig, Paths, Tools } from "./host.ts";

async function require(name: string, packageName: string): Promise<string> {
  const path = await locate(name);
  if (path) return path;
  throw new SvcError("prerequisite_missing", `Cannot run containers: ${name} is not installed`, {
    help: `install the package ${packageName} (apt-get install ${packageName})`,
  });
}

/** SPEC: a runtime that does not validate is a startup error. */
export async function validateBareRuntime(
  { runtime, systemdCgroup }: Pick<BareConfig, "runtime" | "systemdCgroup">,
  place: ProofPlace,
): Promise<void> {
  const root = await Deno.makeTempDir({ prefix: "svc-runtime-" });
  try {
    const binary = await locate(runtime) ?? runtime;
    await proven(await createRuntime({ binary, root, systemdCgroup }), place);
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    throw new SvcError("config_invalid", `Cannot use SVC_BARE_RUNTIME: ${error.message}`, {
      cause: error,
      help: error.help,
    });
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

export async function findTools(
  config: BareConfig,
  paths: Paths,
  place: ProofPlace,
): Promise<Tools> {
  if (Deno.uid() !== 0) {
    throw new SvcError("prerequisite_missing", "Cannot run containers: svc does not run as root", {
      help: "start `svc serve` as root, or choose another SVC_DEPLOY_BACKEND",
    });
  }
  if (!(await hostFacts()).capabilities.has("CAP_SYS_ADMIN")) {
    throw new SvcError(
      "prerequisite_missing",
      "Cannot run containers: this process may not mount file systems (CAP_SYS_ADMIN)",
      { help: "start `svc serve` as the host's root, or in a privileged container" },
    );
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
  await proven(runtime, place);
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
