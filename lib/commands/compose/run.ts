/** `svc compose run SERVICE [COMMAND…]`: a container of its own for one command. */
import type { DeploySpec } from "../../api/deploy_spec.ts";
import { expandPort } from "../../api/deploy_spec_shorthand.ts";
import { SvcError } from "../../base/errors.ts";
import { resolve } from "../../base/path.ts";
import { deleteDeployment } from "../../client/deployments.ts";
import { plain } from "../../compose/decode.ts";
import { deploymentName, LABELS } from "../../compose/names.ts";
import { envOfFiles } from "../../compose/environment.ts";
import { Files } from "../../compose/files.ts";
import { parseMount } from "../../compose/forms/mount.ts";
import { requireServices, selected } from "../../compose/order.ts";
import { Problem } from "../../compose/problem.ts";
import type { LoadedProject } from "../../compose/project.ts";
import type { Mount } from "../../compose/service.ts";
import { done, working } from "../../compose/steps.ts";
import { refusal } from "../../compose/refusal.ts";
import { filesOf, specsOf, withProvided } from "../../compose/up.ts";
import { Watch } from "../../compose/watch.ts";
import type { Invocation } from "../command.ts";
import { releaseHeld } from "../daemon/release.ts";
import { parsePairs } from "../pairs.ts";
import { bringUp, makeFolders, prepare, requireLoaded, surroundingsOf } from "./bring_up.ts";
import { Applier } from "./hold.ts";
import { prepareImages } from "./images.ts";
import { runOnce } from "./one_off.ts";
import type { ProjectInvocation } from "./open_project.ts";
import type { RUN_OPTIONS } from "./options.ts";
import { openProgress, quietly } from "./progress.ts";
import { openSession, type Session } from "./session.ts";

type Call = ProjectInvocation & Invocation<typeof RUN_OPTIONS>;

/** The project with the volumes of -v added to the service; folders are those of this machine. */
function withVolumes(loaded: LoadedProject, name: string, texts: readonly string[] = []) {
  const added = texts.map((text) => {
    try {
      const mount = plain(parseMount(text, [])) as Mount;
      return mount.type === "bind" ? { ...mount, source: resolve(mount.source!) } : mount;
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      throw new SvcError("usage", `Cannot read --volume ${JSON.stringify(text)}: ${error.what}`);
    }
  });
  const { project, project: { services } } = loaded;
  const own = services[name].volumes ?? [];
  const others = own.filter(({ target }) => !added.some((one) => one.target === target));
  const service = { ...services[name], volumes: [...others, ...added] };
  return { ...loaded, project: { ...project, services: { ...services, [name]: service } } };
}

/** The service's spec, changed for one run. */
function oneOffSpec(
  call: Call,
  spec: DeploySpec,
  { terminal, variables }: { terminal: boolean; variables: ReadonlyMap<string, string> },
): DeploySpec {
  const { values, positionals: [service, ...command], env } = call;
  const project = spec.labels![LABELS.project];
  const id = crypto.randomUUID().replaceAll("-", "").slice(0, 12);
  const name = deploymentName(project, `${service}-run-${id}`);
  const labels = parsePairs(values.labels, "--label", env);
  const networks = values.useAliases
    ? spec.networks
    : spec.networks.map(({ aliases: _, ip: _ip, mac: _mac, ...network }) => network);
  return {
    ...spec,
    name,
    ...(command.length > 0 && { command }),
    ...(values.entrypoint !== undefined && {
      entrypoint: values.entrypoint.split(/\s+/).filter(Boolean),
      command,
    }),
    env: { ...spec.env, ...Object.fromEntries(variables), ...parsePairs(values.env, "--env", env) },
    ports: [
      ...(values.servicePorts ? spec.ports : []),
      ...(values.publish ?? []).flatMap(expandPort) as DeploySpec["ports"],
    ],
    networks,
    restart: "no",
    replicas: 1,
    ...(values.user !== undefined && { user: values.user }),
    ...(values.workdir !== undefined && { workingDir: values.workdir }),
    capAdd: [...spec.capAdd ?? [], ...values.capAdd ?? []],
    capDrop: [...spec.capDrop ?? [], ...values.capDrop ?? []],
    tty: terminal,
    stdinOpen: !values.detach,
    labels: {
      ...spec.labels,
      ...labels,
      [LABELS.oneOff]: "true",
      [LABELS.container]: values.name ?? `${project}-${service}-run-${id}`,
    },
  };
}

/** Brings up what the service depends on, and makes its container. Resolves to that one's spec. */
async function make(call: Call, session: Session): Promise<DeploySpec> {
  const { values, positionals: [name], io, io: { signal } } = call;
  const files = requireLoaded(session);
  requireServices(files, [name]);
  if (files.project.services[name].provider) {
    throw refusal(files, ["services", name, "provider"], "its provider runs no commands");
  }
  await using prepared = await prepare(files, session.connection, call, values.pullPolicy);
  const loaded = withVolumes(prepared.loaded, name, values.volumes);
  await using progress = openProgress(quietly(call, values.quiet));
  using watch = new Watch(session.client);
  const report = progress.step.bind(progress);
  const needed = values.noDeps ? [] : selected(loaded, [name]).filter((one) => one !== name);
  const { build = false, removeOrphans, quietPull, quietBuild, pullPolicy } = values;
  const { provided } = needed.length === 0 ? { provided: new Map() } : await bringUp(call, {
    ...{ session, names: needed, values: { removeOrphans, quietPull, quietBuild } },
    ...{ until: "started", report, watch, signal },
  });
  const warn = (text: string) => void io.stderr.write(`svc: warning: ${text}\n`);
  const surroundings = surroundingsOf(session);
  const services = [name];
  const specs = specsOf({ loaded, services, scale: new Map(), surroundings, warn });
  const delivered = (await filesOf({ loaded, services, surroundings })).get(name);
  await makeFolders(loaded, services);
  await prepareImages(call, session.connection, {
    ...{ loaded, names: services, build, noBuild: false, quiet: quietPull, quietBuild },
    pull: pullPolicy,
  });
  const service = loaded.project.services[name];
  const spec = oneOffSpec(call, withProvided(service, specs.get(name)!, provided), {
    terminal: isTyped(call),
    variables: await envOfFiles(
      values.envFromFile ?? [],
      new Map(Object.entries(loaded.environment)),
      new Files(),
      warn,
    ),
  });
  const id = `Container ${spec.labels![LABELS.container]}`;
  working(report, id, "Creating");
  const applier = await Applier.open(call, session, []);
  await applier.apply({
    ...{ subject: { loaded, name, service, surroundings }, spec, files: delivered, once: true },
    settings: { until: values.detach ? "started" : "created" },
    onProgress: () => {},
  });
  done(report, id, "Created");
  return spec;
}

/** True where the person types into the command's terminal. */
function isTyped({ values, io }: Call): boolean {
  if (values.noTty || values.detach) return false;
  return io.stdin.isTerminal && io.stdout.isTerminal;
}

export async function run(call: Call): Promise<number> {
  const { values, io } = call;
  const session = await openSession(call, call.positionals.slice(0, 1));
  const spec = await make(call, session);
  if (values.detach) {
    await io.stdout.write(`${spec.labels![LABELS.container]}\n`);
    return 0;
  }
  try {
    return await runOnce(session.client, spec, io);
  } finally {
    if (values.rm && !io.signal.aborted) {
      await deleteDeployment(session.client, spec.name);
      await releaseHeld(call, session.connection.target, { name: spec.name });
    }
  }
}
