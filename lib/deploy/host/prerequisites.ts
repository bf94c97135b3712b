/** Checks what a host engine needs of the host; errors name the missing package. */
import { SvcError } from "../../base/errors.ts";
import { locate } from "../../base/locate.ts";
import { hostFacts } from "../../runtime/host_facts.ts";

/** The program's path. Throws `prerequisite_missing`. */
export async function requireProgram(name: string, packageName: string): Promise<string> {
  const path = await locate(name);
  if (path) return path;
  throw new SvcError("prerequisite_missing", `Cannot run containers: ${name} is not installed`, {
    help: `install the package ${packageName} (apt-get install ${packageName})`,
  });
}

/** Throws `prerequisite_missing` where this process lacks the rights, or the kernel the features, for containers. */
export async function checkHost(): Promise<void> {
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
  await Promise.all([
    requireProgram("iptables", "iptables"),
    requireProgram("unshare", "util-linux"),
  ]);
}
