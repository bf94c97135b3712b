/** Samples of what instances use: one, or one every so often. */
import type { InstanceOptions, InstanceStats } from "../caps.ts";
import { sampling } from "../sampling.ts";
import type { Deployments } from "./deployments.ts";
import type { ContainerEngine } from "./engine.ts";
import type { Instance } from "./instance.ts";
import { cgroupUsage, networkUsage } from "./usage.ts";

/** Undefined where the instance has ended. */
async function sample(
  engine: Pick<ContainerEngine, "usage">,
  { id, life: { run }, made: { key, choice } }: Instance,
): Promise<InstanceStats | undefined> {
  if (!run) return undefined;
  const { process } = run;
  const [usage, network] = await Promise.all([
    engine.usage ? engine.usage(key) : cgroupUsage(process),
    choice.kind === "host" ? {} : networkUsage(process),
  ]);
  return usage && network && { time: new Date().toISOString(), instance: id, ...usage, ...network };
}

/** See {@linkcode DeployCaps.stats}. */
export async function* sampled(
  { engine, deployments }: { engine: Pick<ContainerEngine, "usage">; deployments: Deployments },
  name: string,
  { instance, everyMs, signal }: InstanceOptions & { everyMs?: number } = {},
): AsyncGenerator<InstanceStats, void, void> {
  const chosen = deployments.require(name).runningOnes(instance);
  const isWanted = ({ id }: Instance) =>
    instance === undefined || chosen.some((before) => before.id === id);
  yield* sampling({
    ...{ chosen, everyMs, signal },
    again: () => (deployments.get(name)?.runningOnes() ?? []).filter(isWanted),
    sample: (one) => sample(engine, one),
  });
}
