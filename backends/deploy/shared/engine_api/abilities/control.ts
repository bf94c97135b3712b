/** Signals, pauses and process lists. */
import { SvcError } from "../../../../../lib/base/errors.ts";
import { signalNumber } from "../../../../../lib/base/signals.ts";
import type { DeployCaps, InstanceOptions, ProcessList } from "../../../../../lib/deploy/caps.ts";
import { daemonStatus } from "../../../../../lib/docker/errors.ts";
import { type AbilityParts, requireRunning, type RunningInstance } from "./parts.ts";

/** The engine says that it is so already, or that it ended meanwhile. */
const isSettled = (error: unknown) => daemonStatus(error) === 409;

export function controlAbilities(
  parts: AbilityParts,
): Required<Pick<DeployCaps, "signal" | "pause" | "top">> {
  const { client, watch, behaviour } = parts;

  async function signal(name: string, text: string, options: InstanceOptions = {}): Promise<void> {
    const number = signalNumber(text);
    if (number === undefined) {
      throw new SvcError("argument_invalid", `Cannot send signal ${JSON.stringify(text)}: unknown`);
    }
    await Promise.all(
      requireRunning(parts, name, options.instance).map(({ id, container }) =>
        client.run({
          method: "POST",
          path: `/containers/${container}/kill`,
          query: { signal: String(number) },
          attempted: `Cannot send a signal to ${id}`,
          signal: options.signal,
        })
      ),
    );
  }

  /** The state is known when it resolves: whoever asks for a status then reads it. */
  async function freeze(
    act: "pause" | "unpause",
    { id, container }: RunningInstance,
    signal?: AbortSignal,
  ): Promise<void> {
    const wanted = act === "pause";
    const now = await watch.look(container, signal);
    if (!now || now.State.Paused === wanted) return;
    await client.run({
      method: "POST",
      path: `/containers/${container}/${act}`,
      attempted: `Cannot ${act} ${id}`,
      signal,
    }).catch(async (error) => {
      const after = await watch.look(container, signal);
      if (!isSettled(error) || after?.State.Paused !== wanted) throw error;
    });
    await watch.look(container, signal);
  }

  const freezing =
    (act: "pause" | "unpause") => async (name: string, options: InstanceOptions = {}) => {
      const all = requireRunning(parts, name, options.instance);
      await Promise.all(all.map((one) => freeze(act, one, options.signal)));
    };

  async function top(name: string, options: InstanceOptions = {}): Promise<ProcessList[]> {
    return await Promise.all(
      requireRunning(parts, name, options.instance).map(async ({ id, container }) => {
        const attempted = `Cannot list the processes of ${id}`;
        const path = `/containers/${container}/top`;
        const list = await client.json<
          { Titles: string[]; Processes: string[][] | null } | undefined
        >({ ...(behaviour.processes?.(path) ?? { path }), attempted, signal: options.signal });
        if (!list) throw new SvcError("conflict", `${attempted}: it is not running`);
        const last = list.Titles.length - 1;
        // What a process calls itself may have what the engine parts columns by.
        const row = (all: string[]) => [...all.slice(0, last), all.slice(last).join("\t")];
        return { instance: id, titles: list.Titles, processes: (list.Processes ?? []).map(row) };
      }),
    );
  }

  return { signal, pause: { pause: freezing("pause"), unpause: freezing("unpause") }, top };
}
