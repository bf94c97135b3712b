/** Commands on one container of a service: `svc compose exec|attach|cp|export|port`. */
import { SvcError } from "../../base/errors.ts";
import { readArchive } from "../../client/files.ts";
import { LABELS } from "../../compose/names.ts";
import { containersOf } from "../../compose/state.ts";
import type { Invocation } from "../command.ts";
import { EXEC_OPTIONS as EXEC } from "../options.ts";
import { ATTACH_OPTIONS as ATTACH, CP_OPTIONS as CP } from "../workload_options.ts";
import { delegate } from "./delegate.ts";
import type { ProjectInvocation } from "./open_project.ts";
import type {
  ATTACH_OPTIONS,
  CP_OPTIONS,
  EXEC_OPTIONS,
  EXPORT_OPTIONS,
  PORT_OPTIONS,
} from "./options.ts";
import { chosen, containerOf, openSession } from "./session.ts";

export const exec = {
  async run(call: ProjectInvocation & Invocation<typeof EXEC_OPTIONS>): Promise<number> {
    const { values, positionals: [service, ...command], io } = call;
    for (const [asked, flag] of [[values.privileged, "privileged"], [values.detach, "detach"]]) {
      if (asked) {
        throw new SvcError("unsupported", `Cannot use --${flag}: svc runs no such commands`, {
          help: "leave it out",
        });
      }
    }
    const session = await openSession(call);
    const { state, instance } = containerOf(session, service, values.index);
    const dev = session.loaded?.devcontainer;
    const user = values.user ?? state.status.labels?.[LABELS.remoteUser];
    const workdir = values.workdir ?? (dev?.service === service ? dev.workspaceFolder : undefined);
    const terminal = !values.noTty && io.stdin.isTerminal && io.stdout.isTerminal;
    return await delegate(call, {
      module: await import("../exec.ts"),
      options: EXEC,
      passThroughAfter: 1,
      connection: session.connection,
      args: [
        // As docker has it, input is passed on; with a terminal where there is one.
        "--interactive",
        ...(terminal ? ["--tty"] : []),
        ...(values.env ?? []).flatMap((pair) => ["--env", pair]),
        ...(user === undefined ? [] : ["--user", user]),
        ...(workdir === undefined ? [] : ["--workdir", workdir]),
        ...["--instance", instance.id, state.status.name, "--", ...command],
      ],
    });
  },
};

export const attach = {
  async run(call: ProjectInvocation & Invocation<typeof ATTACH_OPTIONS>): Promise<number> {
    const { values, positionals: [service] } = call;
    const session = await openSession(call);
    const { state, instance } = containerOf(session, service, values.index);
    return await delegate(call, {
      module: await import("../attach.ts"),
      options: ATTACH,
      connection: session.connection,
      args: [
        ...(values.noStdin ? ["--no-stdin"] : []),
        ...(values.detachKeys === undefined ? [] : [`--detach-keys=${values.detachKeys}`]),
        ...(values.sigProxy ? [] : ["--no-sig-proxy"]),
        ...["--instance", instance.id, state.status.name],
      ],
    });
  },
};

/** "web:/path" → service and path; undefined: a path of this machine. */
function remotePlace(text: string): { service: string; path: string } | undefined {
  const [, service, path] = /^([a-zA-Z0-9][\w.-]*):(.*)$/.exec(text) ?? [];
  if (service === undefined || Deno.build.os === "windows" && service.length === 1) {
    return undefined;
  }
  return { service, path };
}

export const cp = {
  async run(call: ProjectInvocation & Invocation<typeof CP_OPTIONS>): Promise<number> {
    const { values, positionals } = call;
    const session = await openSession(call);
    const [from, to] = positionals;
    const target = remotePlace(to);
    const every = target && values.allContainers
      ? chosen(session, [target.service]).flatMap(containersOf)
      : [undefined];
    let code = 0;
    for (const container of every) {
      const places = [from, to].map((text) => {
        const place = remotePlace(text);
        // A path of this machine that looks like a name must not be taken for one.
        if (!place) return /^[./~-]|^[A-Za-z]:[\\/]/.test(text) ? text : `./${text}`;
        const { state, instance } = container ??
          containerOf(session, place.service, values.index);
        return `${state.status.name}/${instance.id}:${place.path}`;
      });
      code ||= await delegate(call, {
        module: await import("../cp.ts"),
        options: CP,
        connection: session.connection,
        args: [
          ...(values.archive ? ["--archive"] : []),
          ...(values.followLink ? ["--follow-link"] : []),
          ...["--", ...places],
        ],
      });
    }
    return code;
  },
};

const exportFiles = {
  async run(call: ProjectInvocation & Invocation<typeof EXPORT_OPTIONS>): Promise<number> {
    const { values, positionals: [service], io } = call;
    if (values.exportTo === undefined && io.stdout.isTerminal) {
      throw new SvcError("usage", "Cannot export: a terminal cannot show an archive", {
        help: "name a file with -o, or send standard output to one",
      });
    }
    const session = await openSession(call);
    const { state, instance } = containerOf(session, service, values.index);
    const at = { name: state.status.name, instance: instance.id, path: "/" };
    const tar = await readArchive(session.client, at);
    if (values.exportTo === undefined) {
      for await (const bytes of tar) await io.stdout.write(bytes);
    } else await Deno.writeFile(values.exportTo, tar, { signal: io.signal });
    return 0;
  },
};

export const port = {
  async run(call: ProjectInvocation & Invocation<typeof PORT_OPTIONS>): Promise<number> {
    const { values, positionals: [service, text], io } = call;
    const [wanted, protocol = values.protocol] = text.split("/");
    const { state: { status } } = containerOf(await openSession(call), service, values.index);
    const found = status.ports.find((one) =>
      one.container === Number(wanted) && one.protocol === protocol
    );
    if (!found) {
      throw new SvcError(
        "not_found",
        `Cannot find the port: no port ${wanted}/${protocol} of ${service} is published`,
        { help: "`svc compose ps` shows the published ones" },
      );
    }
    const host = found.hostIP.includes(":") ? `[${found.hostIP}]` : found.hostIP || "0.0.0.0";
    await io.stdout.write(`${host}:${found.host}\n`);
    return 0;
  },
};

export { exportFiles as export };
