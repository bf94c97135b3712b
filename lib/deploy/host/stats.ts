/** Samples of what instances use: one, or one every so often. */
import { sleep } from "../../base/sleep.ts";
import type { InstanceOptions, InstanceStats } from "../caps.ts";
import type { Deployments } from "./deployments.ts";
import type { ContainerEngine } from "./engine.ts";
import type { Instance } from "./instance.ts";
import { cgroupUsage, networkUsage } from "./usage.ts";

/** Milliseconds between two samples, at least. */
const SHORTEST = 10;

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
  let chosen = deployments.require(name).runningOnes(instance);
  for (let next = Date.now(); chosen.length > 0;) {
    const samples = await Promise.all(chosen.map((one) => sample(engine, one)));
    for (const one of samples) {
      if (signal?.aborted) return;
      if (one) yield one;
    }
    if (everyMs === undefined) return;
    // By the clock: the time that reading takes does not add up.
    next = Math.max(next + Math.max(everyMs, SHORTEST), Date.now());
    try {
      await sleep(next - Date.now(), signal);
    } catch {
      return; // the reader has left
    }
    const running = deployments.get(name)?.runningOnes() ?? [];
    const isWanted = (one: Instance) =>
      instance === undefined || chosen.some((before) => before.id === one.id);
    chosen = running.filter(isWanted);
  }
}
