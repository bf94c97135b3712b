/** The health check of an instance that runs. */
import type { HealthPlan } from "../container_config.ts";
import { HealthMonitor } from "../health.ts";
import type { ContainerEngine, ProcessIdentity } from "./engine.ts";
import { type ExecTarget, runProbe } from "./exec.ts";
import type { InstanceHooks } from "./instance_parts.ts";
import { isAlive } from "./process.ts";

export const monitorOf = (
  plan: HealthPlan,
  engine: ContainerEngine,
  hooks: Pick<InstanceHooks, "tell" | "changed">,
  { process, target, changed }: {
    process: ProcessIdentity;
    target: () => ExecTarget;
    changed: () => void;
  },
): HealthMonitor =>
  new HealthMonitor({
    plan,
    probe: (command, signal) => runProbe(engine, target(), command, signal),
    lives: () => isAlive(process),
    onChange: (health) => {
      if (health !== "starting") hooks.tell({ type: health });
      changed();
      hooks.changed();
    },
  });
