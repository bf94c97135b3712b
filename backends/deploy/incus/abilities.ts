/** What callers may ask of running instances: Incus's own calls, and commands in the instance. */
import { SvcError } from "../../../lib/base/errors.ts";
import { SIGKILL, signalNumber } from "../../../lib/base/signals.ts";
import type { DeployCaps, InstanceOptions, InstanceStats } from "../../../lib/deploy/caps.ts";
import type { Instance } from "../../../lib/incus/types.ts";
import { networksAbility } from "../shared/engine_api/abilities/managed.ts";
import {
  type DeployedParts,
  requireRunning,
  type RunningInstance,
  runningOne,
} from "../shared/engine_api/abilities/parts.ts";
import { statsBy } from "../shared/engine_api/abilities/stats.ts";
import { attachAbility } from "../shared/engine_api/abilities/attach.ts";
import { attachCalls } from "./attach.ts";
import type { IncusContainers } from "./containers.ts";
import { execIn, runProbe } from "./exec.ts";
import { IncusFiles } from "./files.ts";
import { isRunning } from "./inspect.ts";
import type { IncusPlace } from "./place.ts";
import type { IncusSource } from "./source.ts";
import { topAbility } from "./top.ts";
import { volumesAbility } from "./volumes.ts";

export interface AbilityOptions {
  place: IncusPlace;
  containers: IncusContainers;
  source: IncusSource;
}

/** Milliseconds that a command of svc's own may take. */
const COMMAND_MS = 60_000;

/**
 * Sends signal $1 to the main process. That is the first one; later versions of Incus have an init of their own
 * there, whose first child it is: commands of an exec are nobody's children.
 */
const SEND = `
main=1
read -r name < /proc/1/comm
if [ "$name" = incusd ]; then
  main=
  for status in /proc/[0-9]*/status; do
    pid= parent=
    while read -r key value; do
      case $key in Pid:) pid=$value;; PPid:) parent=$value;; esac
    done 2>/dev/null < "$status"
    [ "$parent" = 1 ] || continue
    if [ -z "$main" ] || [ "$pid" -lt "$main" ]; then main=$pid; fi
  done
fi
kill "-$1" "$main"`;

/** From within: Incus has no call for it. */
async function send(
  { place: { client }, containers }: AbilityOptions,
  { id: instance, container: name }: RunningInstance,
  number: number,
): Promise<void> {
  if (number === SIGKILL) return await containers.kill(name);
  const signal = AbortSignal.timeout(COMMAND_MS);
  const { code, output } = await runProbe(
    { client, name, instance },
    ["sh", "-c", SEND, "sh", String(number)],
    signal,
  );
  if (code === 0) return;
  throw new SvcError(
    "unsupported",
    `Cannot send a signal to ${instance}: ${output.trim() || "the image has no sh"}`,
    { help: "use an image with a shell, or stop the deployment" },
  );
}

/** `pause` or, where `frozen` is false, `unpause`. */
const freezing =
  ({ client }: IncusPlace, parts: DeployedParts, frozen: boolean) =>
  async (name: string, options: InstanceOptions = {}): Promise<void> => {
    const act = frozen ? "pause" : "unpause";
    await Promise.all(
      requireRunning(parts, name, options.instance).map(async ({ id, container }) => {
        const now = await parts.watch.look(container, options.signal);
        if (!now || now.State.Paused === frozen) return;
        await client.change({
          method: "PUT",
          path: `/instances/${container}/state`,
          json: { action: frozen ? "freeze" : "unfreeze", timeout: -1 },
          attempted: `Cannot ${act} ${id}`,
          signal: options.signal,
        }).catch(async (error) => {
          const after = await parts.watch.look(container, options.signal);
          if (after?.State.Paused !== frozen) throw error;
        });
        await parts.watch.look(container, options.signal);
      }),
    );
  };

async function sample(
  { client }: IncusPlace,
  { id, container }: RunningInstance,
  memoryLimit: number | undefined,
  signal?: AbortSignal,
): Promise<InstanceStats | undefined> {
  const found = await client.get<Instance>({
    path: `/instances/${container}`,
    query: { recursion: 1 },
    attempted: `Cannot read the counters of ${id}`,
    signal,
  });
  const { state } = found;
  if (!state || !isRunning(found)) return undefined;
  const counters = Object.entries(state.network ?? {}).filter(([nic]) => nic !== "lo")
    .map(([, { counters }]) => counters);
  return {
    time: new Date().toISOString(),
    instance: id,
    cpu: state.cpu.usage,
    memory: state.memory.usage,
    ...(memoryLimit && { memoryLimit }),
    processes: state.processes,
    ...await disks(client, container, signal),
    received: counters.reduce((sum, { bytes_received }) => sum + bytes_received, 0),
    sent: counters.reduce((sum, { bytes_sent }) => sum + bytes_sent, 0),
  };
}

/** Incus tells what disks read and write among its metrics alone. */
async function disks(client: IncusPlace["client"], name: string, signal?: AbortSignal) {
  const { body } = await client.raw({
    path: "/metrics",
    attempted: `Cannot read the counters of ${name}`,
    signal,
  });
  const text = await new Response(body as ReadableStream<Uint8Array<ArrayBuffer>>).text();
  const own = text.split("\n").filter((line) => line.includes(`name="${name}"`));
  const sum = (metric: string) =>
    own.filter((line) => line.startsWith(`${metric}{`))
      .reduce((all, line) => all + Number(line.slice(line.lastIndexOf(" "))), 0);
  return {
    blockRead: sum("incus_disk_read_bytes_total"),
    blockWritten: sum("incus_disk_written_bytes_total"),
  };
}

export function incusAbilities(options: AbilityOptions, parts: DeployedParts): DeployCaps {
  const { place, source } = options;
  const { client } = place;

  return {
    attach: attachAbility({ ...parts, calls: attachCalls(source) }),

    exec: async (name, request, { signal } = {}) => {
      const { id: instance, container, found } = runningOne(parts, name, request.instance);
      if (found.State.Paused) {
        throw new SvcError("conflict", `Cannot run a command in ${instance}: it is paused`, {
          help: "unpause the deployment first",
        });
      }
      return await execIn({ client, name: container, instance }, request, signal);
    },

    signal: async (name, text, { instance } = {}) => {
      const chosen = requireRunning(parts, name, instance);
      const number = signalNumber(text);
      if (number === undefined) {
        throw new SvcError(
          "argument_invalid",
          `Cannot send signal ${JSON.stringify(text)}: unknown`,
        );
      }
      await Promise.all(chosen.map((one) => send(options, one, number)));
    },

    pause: { pause: freezing(place, parts, true), unpause: freezing(place, parts, false) },

    files: new IncusFiles(place, parts),
    stats: statsBy(parts, (name, one, signal) => {
      const { memoryLimit } = parts.require(name).record.spec.resources ?? {};
      return sample(place, one, memoryLimit, signal);
    }),
    top: topAbility(place, parts),
    volumes: volumesAbility(place, parts),
    networks: networksAbility(parts),
  };
}
