/** Finds the programs that run containers; errors name the missing package. */
import { SvcError } from "../../../lib/base/errors.ts";
import { locate } from "../../../lib/base/locate.ts";
import { checkHost, requireProgram } from "../../../lib/deploy/host/prerequisites.ts";
import { cniDirs, CniPlugins } from "../../../lib/runtime/cni.ts";
import { type ProofPlace, proven } from "../../../lib/runtime/proof.ts";
import { createRuntime, type RuntimeOptions } from "../../../lib/runtime/runc.ts";
import type { Runtime } from "../../../lib/runtime/runtime.ts";
import type { BareSettings } from "./options.ts";

/** True where this host looks able to run containers so; nothing is started. */
export async function worksHere(
  { runtime, cniBinDir }: Pick<BareSettings, "runtime" | "cniBinDir">,
): Promise<boolean> {
  try {
    const plugins = new CniPlugins(cniDirs(cniBinDir));
    await Promise.all([
      checkHost(),
      ...[runtime, "conmon"].map((name) => requireProgram(name, name)),
      ...["bridge", "host-local"].map((name) => plugins.find(name)),
    ]);
    return true;
  } catch (error) {
    if (error instanceof SvcError) return false;
    throw error;
  }
}

/** The programs that were found, with checked versions. */
export interface Tools {
  /** With an absolute path, which the monitor needs. */
  runtime: Runtime;
  conmon: string;
}

/** SPEC "Bare backend": a runtime that does not validate is a startup error. */
export async function validateBareRuntime(
  { runtime, systemdCgroup }: { runtime: string; systemdCgroup: boolean },
  place: ProofPlace,
): Promise<void> {
  const root = await Deno.makeTempDir({ prefix: "svc-runtime-" });
  try {
    const binary = await locate(runtime) ?? runtime;
    await proven(await createRuntime({ binary, root, systemdCgroup }), place);
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    throw new SvcError("config_invalid", `Cannot use SVC_RUNTIME: ${error.message}`, {
      cause: error,
      help: systemdCgroup
        ? "unset SVC_BARE_SYSTEMD_CGROUP where no systemd runs; or see the runtime's message"
        : error.help,
    });
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

/** `root`: the runtime's folder, made if missing. Throws `prerequisite_missing`. */
export async function findTools(
  { binary, root, systemdCgroup }: RuntimeOptions & { root: string },
  place: ProofPlace,
): Promise<Tools> {
  const [path, conmon] = await Promise.all([
    locate(binary),
    requireProgram("conmon", "conmon"),
    checkHost(),
  ]);
  await Deno.mkdir(root, { recursive: true, mode: 0o700 });
  const runtime = await createRuntime({ binary: path ?? binary, root, systemdCgroup });
  await proven(runtime, place);
  return { runtime, conmon };
}
