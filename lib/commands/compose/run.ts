/** `svc compose run SERVICE [COMMAND…]`: a container of its own for one command. */
import type { DeploySpec } from "../../api/deploy_spec.ts";
import { expandPort } from "../../api/deploy_spec_shorthand.ts";
import { SvcError } from "../../base/errors.ts";
import { applyDeployment, deleteDeployment } from "../../client/deployments.ts";
import { deploymentName, LABELS } from "../../compose/names.ts";
import { envOfFiles } from "../../compose/environment.ts";
import { Files } from "../../compose/files.ts";
import { requireServices, selected } from "../../compose/order.ts";
import { done, working } from "../../compose/steps.ts";
import { refusal } from "../../compose/refusal.ts";
import { filesOf, specsOf, withProvided } from "../../compose/up.ts";
import { Watch } from "../../compose/watch.ts";
import type { Invocation } from "../command.ts";
import { withLogins } from "../deploy_logins.ts";
import { parsePairs } from "../pairs.ts";
import { bringUp, type BroughtUp, requireLoaded, surroundingsOf } from "./bring_up.ts";
import { prepareImages } from "./images.ts";
import { runOnce } from "./one_off.ts";
import type { ProjectInvocation } from "./open_project.ts";
import type { RUN_OPTIONS } from "./options.ts";
import { openProgress, quietly } from "./progress.ts";
import { openSession, type Session } from "./session.ts";

type Call = ProjectInvocation & Invocation<typeof RUN_OPTIONS>;

/** Fields of `-v NAME:PATH[:ro]`; folders of this machine are for the file. */
function volumesOf(texts: readonly string[] = []): DeploySpec["volumes"] {
  return texts.map((text) => {
    const [name, target, mode] = text.split(":");
    if (/^[a-zA-Z0-9][\w.-]*$/.test(name) && target?.startsWith("/")) {
      return { name, target, ...(mode === "ro" && { readOnly: true }) };
    }
    throw new SvcError("usage", `Cannot read --volume ${JSON.stringify(text)}: write VOLUME:PATH`, {
      help: "folders are mounted by the service's volumes in the file",
    });
  });
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
    volumes: [...spec.volumes, ...volumesOf(values.volumes)],
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

/** Brings up what the service depends on, and returns its own spec. */
async function prepare(call: Call, session: Session): Promise<DeploySpec> {
  const { values, positionals: [service], io } = call;
  const loaded = requireLoaded(session);
  requireServices(loaded, [service]);
  if (loaded.project.services[service].provider) {
    throw refusal(loaded, ["services", service, "provider"], "its provider runs no commands");
  }
  await using progress = openProgress(quietly(call, values.quiet));
  using watch = new Watch(session.client);
  const report = progress.step.bind(progress);
  const needed = values.noDeps ? [] : selected(loaded, [service]).filter((one) => one !== service);
  const { signal } = io;
  let provided: BroughtUp["provided"] = new Map();
  if (needed.length > 0) {
    const { removeOrphans, quietPull, quietBuild } = values;
    ({ provided } = await bringUp(call, {
      ...{
        session,
        names: needed,
        values: { removeOrphans, quietPull, quietBuild },
        until: "started",
      },
      ...{ report, watch, signal },
    }));
  }
  const warn = (text: string) => void io.stderr.write(`svc: warning: ${text}\n`);
  const surroundings = surroundingsOf(session);
  const services = [service];
  const specs = specsOf({ loaded, services, scale: new Map(), surroundings, warn });
  const files = (await filesOf({ loaded, services, surroundings })).get(service);
  const { build = false, quietPull: quiet, quietBuild, pullPolicy } = values;
  await prepareImages(call, session.connection, {
    ...{ loaded, names: [service], build, noBuild: false, quiet, quietBuild },
    pull: pullPolicy,
  });
  const plain = withProvided(loaded.project.services[service], specs.get(service)!, provided);
  const spec = oneOffSpec(call, plain, {
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
  const { client } = session;
  const body = await withLogins({ name: spec.name, spec, files }, { client, env: call.env, io });
  const until = values.detach ? "started" : "created";
  await applyDeployment(client, body, () => {}, { until });
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
  const session = await openSession(call);
  const spec = await prepare(call, session);
  if (values.detach) {
    await io.stdout.write(`${spec.labels![LABELS.container]}\n`);
    return 0;
  }
  try {
    return await runOnce(session.client, spec, io);
  } finally {
    if (values.rm && !io.signal.aborted) await deleteDeployment(session.client, spec.name);
  }
}
