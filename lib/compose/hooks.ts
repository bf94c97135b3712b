/** `post_start` and `pre_stop`: commands in a service's containers, after their start and before their stop. */
import { SvcError } from "../base/errors.ts";
import type { Client } from "../client/client.ts";
import { exec } from "../client/exec.ts";
import type { LoadedProject } from "./project.ts";
import { type Path, refusal } from "./refusal.ts";
import type { Hook } from "./service.ts";
import { type Container, containersOf, isUp, type ServiceState } from "./state.ts";
import type { Report } from "./steps.ts";

type When = "post_start" | "pre_stop";

/** Bytes of a hook's output that an error shows, at most. */
const SHOWN = 2000;

/** Throws for a hook that cannot run as it says. */
export function checkHooks(loaded: LoadedProject, path: Path, hooks: readonly Hook[] = []): void {
  for (const [index, { privileged }] of hooks.entries()) {
    if (!privileged) continue;
    throw refusal(
      loaded,
      [...path, index, "privileged"],
      "a command has the container's own privileges",
    );
  }
}

/** Runs one command to its end. Throws `deploy_failed` with the end of its output where it fails. */
export async function runHook(
  client: Client,
  { state, instance, name }: Container,
  { command, user, working_dir: workingDir, environment = {} }: Hook,
  { what, signal }: { what: string; signal: AbortSignal },
): Promise<void> {
  let said = "";
  const decoder = new TextDecoder();
  const code = await exec(client, state.status.name, {
    command: command ?? [],
    env: Object.entries(environment).flatMap(([key, value]) =>
      value === null ? [] : [`${key}=${value}`]
    ),
    instance: instance.id,
    ...(user && { user }),
    ...(workingDir && { workingDir }),
  }, {
    signal,
    onOutput: (_stream, data) => {
      said = (said + decoder.decode(data, { stream: true })).slice(-SHOWN);
      return Promise.resolve();
    },
  });
  if (code === 0) return;
  const output = said.trim();
  throw new SvcError(
    "deploy_failed",
    `Cannot go on: ${what} of container ${name} exited with ${code}${output && `: ${output}`}`,
    { help: "what runs is left running; correct the command, and `svc compose up` again" },
  );
}

/** The hooks of a project. Without its files there are none. */
export class Hooks {
  readonly #client: Client;
  readonly #loaded: LoadedProject | undefined;

  constructor(client: Client, loaded: LoadedProject | undefined) {
    this.#client = client;
    this.#loaded = loaded;
  }

  #of({ service, oneOff }: ServiceState, when: When): readonly Hook[] {
    const services = { ...this.#loaded?.disabled, ...this.#loaded?.project.services };
    return oneOff ? [] : services[service]?.[when] ?? [];
  }

  async #run(
    state: ServiceState,
    when: When,
    containers: readonly Container[],
    signal: AbortSignal,
  ) {
    const hooks = this.#of(state, when);
    await Promise.all(containers.map(async (container) => {
      for (const hook of hooks) {
        await runHook(this.#client, container, hook, { what: when, signal });
      }
    }));
  }

  /** Of the containers that have just been started. Throws `deploy_failed`. */
  async afterStart(
    state: ServiceState,
    signal: AbortSignal,
    started: (container: Container) => boolean = () => true,
  ): Promise<void> {
    const containers = containersOf(state).filter((one) => isUp(one.instance) && started(one));
    await this.#run(state, "post_start", containers, signal);
  }

  /** Of the containers that run. A failure is told, and stops nobody from stopping. */
  async beforeStop(state: ServiceState, report: Report): Promise<void> {
    if (this.#of(state, "pre_stop").length === 0) return;
    const containers = containersOf(state).filter(({ instance }) => isUp(instance));
    const signal = new AbortController().signal;
    for (const container of containers) {
      await this.#run(state, "pre_stop", [container], signal).catch((error) => {
        const status = error instanceof SvcError ? error.message : String(error);
        report({ id: `Hook of ${container.name}`, status, end: "warning" });
      });
    }
  }
}
