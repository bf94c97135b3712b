/** `svc compose events`, `wait`, `volumes`. */
import type { InstanceEvent } from "../../api/deployment.ts";
import { SvcError } from "../../base/errors.ts";
import { renderTable } from "../../base/table.ts";
import { listManaged, readEvents } from "../../client/workloads.ts";
import { remove } from "../../compose/down.ts";
import { volumeName } from "../../compose/service_storage.ts";
import { containersOf, isUp, nameOf, projectStates, serviceState } from "../../compose/state.ts";
import { Watch } from "../../compose/watch.ts";
import type { Invocation } from "../command.ts";
import type { ProjectInvocation } from "./open_project.ts";
import type { EVENTS_OPTIONS, VOLUMES_OPTIONS, WAIT_OPTIONS } from "./options.ts";
import { openProgress } from "./progress.ts";
import { chosen, openSession } from "./session.ts";

/** docker's words for what happens to a container. */
function actionOf(event: InstanceEvent): string {
  switch (event.type) {
    case "created":
      return "create";
    case "started":
      return "start";
    case "died":
      return "die";
    case "stopped":
      return "stop";
    case "removed":
      return "destroy";
    case "oom":
      return "oom";
    default:
      return `health_status: ${event.type}`;
  }
}

export const events = {
  async run(call: ProjectInvocation & Invocation<typeof EVENTS_OPTIONS>): Promise<number> {
    const { values, positionals, io } = call;
    const session = await openSession(call);
    const { client, name } = session;
    chosen(session, positionals);
    // Deployments that come later belong to the project too.
    const known = new Map(session.states.map((state) => [state.status.name, state]));
    for await (const event of readEvents(client)) {
      if (!known.has(event.deployment) && event.type === "created") {
        for (const state of await projectStates(client, name)) known.set(state.status.name, state);
      }
      const state = known.get(event.deployment);
      if (!state || positionals.length > 0 && !positionals.includes(state.service)) continue;
      const [action, container] = [actionOf(event), nameOf(state, event.instance)];
      const attributes = {
        image: state.status.image,
        name: container,
        ...(event.type === "died" && { exitCode: String(event.exitCode) }),
      };
      const list = Object.entries(attributes).map((pair) => pair.join("=")).join(", ");
      const [time, id] = [event.time, event.container];
      await io.stdout.write(
        values.json || values.output === "json"
          ? JSON.stringify(
            { time, type: "container", service: state.service, id, action, attributes },
          ) + "\n"
          : `${time} container ${action} ${id} (${list})\n`,
      );
    }
    throw new SvcError("unavailable", "Cannot go on with the events: the server has ended them");
  },
};

export const wait = {
  async run(call: ProjectInvocation & Invocation<typeof WAIT_OPTIONS>): Promise<number> {
    const { values, positionals, io } = call;
    const session = await openSession(call);
    const { client } = session;
    const states = chosen(session, positionals);
    if (states.length === 0) {
      throw new SvcError("not_found", "Cannot wait: no container found", {
        help: "`svc compose up` makes them",
      });
    }
    using watch = new Watch(client);
    let code = 0;
    const ends = states.map(async ({ status: { name }, service }) => {
      const over = await watch.wait(
        name,
        (status) => !status || !status.instances.some(isUp) && status.state !== "pending",
        io.signal,
      );
      const state = over && serviceState(over);
      const codes = state ? containersOf(state).map(({ instance }) => instance.exitCode ?? 0) : [0];
      for (const one of codes) {
        code ||= one;
        await io.stdout.write(
          `container for service "${service}" exited with status code ${one}\n`,
        );
      }
    });
    await (values.downProject ? Promise.race(ends) : Promise.all(ends));
    if (values.downProject) {
      await using progress = openProgress(call);
      const left = await projectStates(client, session.name);
      await remove(left, { client, report: progress.step.bind(progress) });
    }
    return code;
  },
};

export const volumes = {
  async run(call: ProjectInvocation & Invocation<typeof VOLUMES_OPTIONS>): Promise<number> {
    const { values, io } = call;
    const { client, loaded, name: project } = await openSession(call);
    const own = loaded
      ? new Set(Object.keys(loaded.project.volumes).map((key) => volumeName(loaded.project, key)))
      : undefined;
    const all = (await listManaged(client, "volumes")).filter(({ name }) =>
      own?.has(name) || name.startsWith(own ? `${project}_anonymous_` : `${project}_`)
    );
    const text = values.quiet
      ? all.map(({ name }) => `${name}\n`).join("")
      : values.format === "json" || values.output === "json"
      ? all.map((one) =>
        JSON.stringify({ Driver: one.driver, Name: one.name, Scope: "local" }) + "\n"
      ).join("")
      : renderTable(["DRIVER", "VOLUME NAME"], all.map(({ driver, name }) => [driver, name]), {
        narrowest: 10,
      });
    await io.stdout.write(text);
    return 0;
  },
};
