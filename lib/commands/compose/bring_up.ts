/** What `up`, `create`, `run` and `scale` have in common: services made to run as the files say. */
import { Semaphore } from "../../base/mutex.ts";
import { SvcError } from "../../base/errors.ts";
import type { Connection } from "../../client/connection.ts";
import { listDeployments } from "../../client/deployments.ts";
import { remove } from "../../compose/down.ts";
import { selected } from "../../compose/order.ts";
import type { LoadedProject } from "../../compose/project.ts";
import { containersOf, type ServiceState } from "../../compose/state.ts";
import type { Report } from "../../compose/steps.ts";
import { filesOf, requireOwn, specsOf, up, type UpOptions } from "../../compose/up.ts";
import { Watch } from "../../compose/watch.ts";
import { isLocal } from "../connect.ts";
import { Applier } from "./hold.ts";
import { prepareImages } from "./images.ts";
import type { ProjectInvocation } from "./open_project.ts";
import { orphansOf, type Session } from "./session.ts";

/** Values that all of them have. */
export interface BringUpValues {
  build?: boolean;
  noBuild?: boolean;
  forceRecreate?: boolean;
  noRecreate?: boolean;
  alwaysRecreateDeps?: boolean;
  noDeps?: boolean;
  removeOrphans?: boolean;
  quietPull?: boolean;
  quietBuild?: boolean;
  pullPolicy?: string;
  scale?: readonly string[];
}

/** `SERVICE=N` of --scale. Throws `usage`. */
export function scaleOf(
  texts: readonly string[] = [],
  loaded: LoadedProject,
): Map<string, number> {
  return new Map(texts.map((text) => {
    const [, name, number] = /^(.+)=(\d+)$/.exec(text) ?? [];
    if (name !== undefined && loaded.project.services[name]) return [name, Number(number)];
    const why = name === undefined ? "expected SERVICE=NUMBER" : `there is no service ${name}`;
    throw new SvcError("usage", `Cannot read --scale ${JSON.stringify(text)}: ${why}`);
  }));
}

/** Of `--parallel`; undefined: as many as there are. Throws `usage`. */
function slotsOf(text: string): Semaphore | undefined {
  const number = Number(text);
  if (Number.isInteger(number)) return number > 0 ? new Semaphore(number) : undefined;
  throw new SvcError("usage", `Cannot read --parallel ${JSON.stringify(text)}: expected a number`);
}

export function requireLoaded({ loaded, name }: Session): LoadedProject {
  if (loaded) return loaded;
  throw new SvcError("not_found", `Cannot find the files of the project ${name}`, {
    help: "name them with -f, or change to their folder",
  });
}

/** The project with what the images and features of a dev container add to it. `pull`: as the caller wants it. */
export async function prepare(
  loaded: LoadedProject,
  connection: Connection,
  call: ProjectInvocation,
  pull?: string,
): Promise<{ loaded: LoadedProject } & AsyncDisposable> {
  if (!loaded.devcontainer) return { loaded, [Symbol.asyncDispose]: () => Promise.resolve() };
  const { prepareDevcontainer } = await import("./devcontainer/image.ts");
  return await prepareDevcontainer(loaded, loaded.devcontainer, { connection, call, pull });
}

export const surroundingsOf = (session: Session) => ({ localFolders: isLocal(session.connection) });

/** Folders that a short form of a bind mount asks to be made, as docker makes them. */
export async function makeFolders(
  { project }: LoadedProject,
  services: readonly string[],
): Promise<void> {
  for (const name of services) {
    for (const { type, source, bind } of project.services[name].volumes ?? []) {
      if (type !== "bind" || !source || !bind?.create_host_path) continue;
      await Deno.mkdir(source, { recursive: true }).catch((error) => {
        // A file is there, or another user's folder: the server says what it may mount.
        const { AlreadyExists, NotADirectory } = Deno.errors;
        if (!(error instanceof AlreadyExists || error instanceof NotADirectory)) throw error;
      });
    }
  }
}

async function heedOrphans(
  { io }: ProjectInvocation,
  session: Session,
  { report, removes }: { report: Report; removes: boolean },
): Promise<void> {
  const orphans = orphansOf(session);
  if (orphans.length === 0) return;
  if (removes) return await remove(orphans, { client: session.client, report });
  const names = orphans.flatMap(containersOf).map(({ name }) => name).join(" ");
  await io.stderr.write(
    `svc: warning: Found orphan containers ([${names}]) for this project. If you removed or renamed ` +
      "this service in your compose file, you can run this command with the --remove-orphans flag to " +
      "clean it up.\n",
  );
}

/** The named services with what they need; without names those of the dev container, or all. */
function chosenOf(loaded: LoadedProject, names: readonly string[], alone?: boolean): string[] {
  const { service, fields } = loaded.devcontainer ?? {};
  const chosen = service !== undefined && fields?.runServices && names.length === 0
    ? [service, ...fields.runServices]
    : names;
  const services = selected(loaded, chosen, alone);
  if (services.length > 0) return services;
  throw new SvcError("argument_invalid", "Cannot run the project: no service selected", {
    help: "the files have none, or all are of inactive profiles",
  });
}

function recreateOf({ forceRecreate, noRecreate }: BringUpValues): UpOptions["recreate"] {
  if (!forceRecreate || !noRecreate) {
    return noRecreate ? "never" : forceRecreate ? "always" : "changed";
  }
  throw new SvcError("usage", "Cannot use --force-recreate together with --no-recreate");
}

export interface BringUp {
  session: Session;
  /** Those that are named; none: all. */
  names: readonly string[];
  values: BringUpValues;
  until: UpOptions["until"];
  report: Report;
  watch: Watch;
  /** Ends waiting, and begins no further service. */
  signal: AbortSignal;
  onUp?: UpOptions["onUp"];
}

/** What was brought up. */
export interface BroughtUp {
  /** Services with containers of their own. */
  services: string[];
  /** Variables that providers have set, by service. */
  provided: ReadonlyMap<string, Record<string, string>>;
}

export async function bringUp(
  invocation: ProjectInvocation,
  { session, names, values, until, report, watch, signal, onUp }: BringUp,
): Promise<BroughtUp> {
  const { io } = invocation;
  const { client, connection } = session;
  const files = requireLoaded(session);
  const recreate = recreateOf(values);
  if (files.devcontainer) {
    const { initialize } = await import("./devcontainer/lifecycle.ts");
    await initialize(files.devcontainer, report, signal);
  }
  await using prepared = await prepare(files, connection, invocation, values.pullPolicy);
  const { loaded, loaded: { devcontainer: dev } } = prepared;
  const services = chosenOf(loaded, names, values.noDeps);
  const warnings: Promise<void>[] = [];
  const warn = (text: string) => void warnings.push(io.stderr.write(`svc: warning: ${text}\n`));
  const scale = scaleOf(values.scale, loaded);
  const slots = slotsOf(invocation.values.parallel);
  const surroundings = surroundingsOf(session);
  const specs = specsOf({ loaded, services, scale, surroundings, warn });
  const delivered = await filesOf({ loaded, services, surroundings });
  const all = await listDeployments(client);
  requireOwn(loaded.project.name, specs, all);
  await makeFolders(loaded, services);
  await prepareImages(invocation, connection, {
    ...{ loaded, names: services, build: values.build ?? false, noBuild: values.noBuild ?? false },
    ...{ pull: values.pullPolicy, quiet: values.quietPull, quietBuild: values.quietBuild },
  });
  await heedOrphans(invocation, session, { report, removes: values.removeOrphans ?? false });
  const applier = await Applier.open(invocation, session, all);
  const named = names.length === 0 ? services : names;
  let inside: ServiceState | undefined;
  const provided = await up({
    ...{ loaded, services, scale, surroundings, warn, until, client, watch, signal, report },
    onUp(state, result) {
      if (state.service === dev?.service) inside = state;
      onUp?.(state, result);
    },
    recreate,
    settled: new Set(
      values.alwaysRecreateDeps ? [] : services.filter((name) => !named.includes(name)),
    ),
    there: session.states,
    apply: (name, spec, settings, onProgress) => {
      const subject = { loaded, name, service: loaded.project.services[name], surroundings };
      const work = () =>
        applier.apply({ subject, spec, files: delivered.get(name), settings, onProgress });
      return slots ? slots.run(work, signal) : work();
    },
  }, specs);
  if (dev && inside && until === "started") {
    const { live } = await import("./devcontainer/lifecycle.ts");
    await live({ ...{ client, dev, report, signal }, state: inside });
  }
  await Promise.all(warnings);
  return { services: services.filter((name) => specs.has(name)), provided };
}
