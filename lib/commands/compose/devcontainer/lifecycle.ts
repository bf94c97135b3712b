/** The commands of a dev container's life: before it here, and inside it once it is made, started and attached to. */
import { SvcError } from "../../../base/errors.ts";
import { run } from "../../../base/process.ts";
import type { Client } from "../../../client/client.ts";
import { exec } from "../../../client/exec.ts";
import {
  type Command,
  type Devcontainer,
  type Lifecycle,
  substituted,
} from "../../../compose/devcontainer/read.ts";
import { runHook } from "../../../compose/hooks.ts";
import { type Container, containersOf, isUp, type ServiceState } from "../../../compose/state.ts";
import { done, failing, type Report, working } from "../../../compose/steps.ts";

/** Files in the container that say what has been done to it; they go with it. */
const MARK = "/var/tmp/.svc-devcontainer";

/** Characters of what a command in the container prints of itself, beyond which nothing is added. */
const MOST = 1 << 20;

/** Words of each command that runs at the same time. */
const wordsOf = (command: Command): string[][] =>
  typeof command === "string"
    ? [["/bin/sh", "-c", command]]
    : Array.isArray(command)
    ? [command]
    : Object.values(command).flatMap(wordsOf);

/** Runs `initializeCommand` on this machine, in the workspace. Throws `deploy_failed`. */
export async function initialize(dev: Devcontainer, report: Report, signal: AbortSignal) {
  const { fields: { initializeCommand: command }, workspace: cwd } = dev;
  if (!command) return;
  if (!dev.asked) {
    throw new SvcError(
      "argument_invalid",
      `Cannot bring up ${dev.file}: its initializeCommand would run on this machine, and nobody asked for the file`,
      { help: "look at the command, and ask for it with --devcontainer" },
    );
  }
  working(report, "initializeCommand", "Running");
  await Promise.all(
    wordsOf(command).map(async ([program, ...args]) => {
      const { code, stderr, stdout } = await run(program, args, { cwd, signal });
      if (code === 0) return;
      const said = (stderr.trim() || stdout.trim()).slice(-2000);
      throw new SvcError(
        "deploy_failed",
        `Cannot go on: initializeCommand exited with ${code}${said && `: ${said}`}`,
      );
    }),
  ).catch(failing(report, ["initializeCommand"]));
  done(report, "initializeCommand", "Done");
}

interface Living {
  client: Client;
  dev: Devcontainer;
  state: ServiceState;
  report: Report;
  signal: AbortSignal;
}

class Life {
  readonly #of: Living;
  readonly #container: Container;
  #environment?: Promise<Record<string, string | null>>;

  constructor(of: Living, container: Container) {
    this.#of = of;
    this.#container = container;
  }

  async #output(command: string[], user?: string): Promise<string | undefined> {
    const { client, signal } = this.#of;
    const { state, instance } = this.#container;
    let said = "";
    const code = await exec(client, state.status.name, {
      ...{ command, env: [], instance: instance.id, ...(user && { user }) },
    }, {
      signal,
      onOutput: (stream, data) => {
        // The image's own programs print it.
        if (stream === "stdout" && said.length < MOST) said += new TextDecoder().decode(data);
        return Promise.resolve();
      },
    });
    return code === 0 ? said : undefined;
  }

  /** The variables of remoteEnv, with those of the container that they name. */
  async #remoteEnv(): Promise<Record<string, string | null>> {
    const { dev: { fields: { remoteEnv = {} } } } = this.#of;
    if (!JSON.stringify(remoteEnv).includes("${containerEnv:")) return remoteEnv;
    const lines = (await this.#output(["env"]) ?? "").split("\n");
    const there = new Map(lines.map((line) => {
      const at = line.indexOf("=");
      return [line.slice(0, at), line.slice(at + 1)] as const;
    }));
    return substituted(
      remoteEnv,
      (name, [variable, standard]) =>
        name === "containerEnv" ? there.get(variable) ?? standard ?? "" : undefined,
    );
  }

  async run(name: Lifecycle): Promise<void> {
    const { client, dev: { fields, workspaceFolder, ...dev }, report, signal } = this.#of;
    const commands = dev.commands.flatMap((one) => one[name] === undefined ? [] : [one[name]]);
    if (commands.length === 0) return;
    const environment = await (this.#environment ??= this.#remoteEnv());
    const user = fields.remoteUser ?? fields.containerUser;
    working(report, name, "Running");
    for (const command of commands) {
      await Promise.all(
        wordsOf(command).map((words) =>
          runHook(client, this.#container, {
            ...{ command: words, environment, working_dir: workspaceFolder },
            ...(user && { user }),
          }, { what: name, signal })
        ),
      ).catch(failing(report, [name]));
    }
    done(report, name, "Done");
  }

  /** Runs these unless the container says that they ran, with this text; then it says so. */
  async once(mark: string, text: string, names: readonly Lifecycle[]): Promise<void> {
    const file = `${MARK}-${mark}`;
    if ((await this.#output(["cat", file], "0"))?.trim() === text) return;
    for (const name of names) await this.run(name);
    await this.#output(["/bin/sh", "-c", `mkdir -p /var/tmp; echo '${text}' > ${file}`], "0");
  }
}

/** After the container was brought up: what has not been run in it yet. Throws `deploy_failed`. */
export async function live(living: Living): Promise<void> {
  const [container] = containersOf(living.state).filter(({ instance }) => isUp(instance));
  if (!container) return;
  const life = new Life(living, container);
  await life.once("created", "yes", [
    "onCreateCommand",
    "updateContentCommand",
    "postCreateCommand",
  ]);
  const started = (container.instance.startedAt ?? "").replace(/[^\w:.-]/g, "");
  await life.once("started", started, ["postStartCommand"]);
  await life.run("postAttachCommand");
}
