/** Loads a Compose project: its files, its variables, its services as they run. */
import { checkConsistency } from "./consistency.ts";
import { decode } from "./decode.ts";
import { resolveServiceEnvironment, resolveServiceLabels, unsetWarning } from "./environment.ts";
import { Files } from "./files.ts";
import { Interpolator } from "./interpolate.ts";
import { locate, type Located, nameProject } from "./locate.ts";
import { loadUnit } from "./model.ts";
import { normalise } from "./normalise.ts";
import { placed, withPlaces } from "./problem.ts";
import type { LoadedProject, LoadOptions, Project } from "./project.ts";
import { splitByProfile } from "./select.ts";
import { FILE } from "./shape/resources.ts";
import type { Session } from "./unit.ts";
import { invalid, readYaml } from "./yaml/read.ts";
import { isMapping, type Mapping, placeAt } from "./yaml/tree.ts";

/** What `config` can leave out; everything else wants the defaults. */
export interface LoadSteps {
  /** Default true; false: variables stay as they are written. */
  interpolate?: boolean;
  resolvePaths?: boolean;
  normalise?: boolean;
  consistency?: boolean;
  /** Puts what env files say into the services' environments. */
  resolveEnvironment?: boolean;
}

/** A project before it is made one of fields: what `config --no-interpolate` shows. */
export interface Model {
  root: Mapping;
  name: string;
  located: Located;
  files: Files;
  warnings: string[];
  /** Adds a warning, once. */
  warn: (text: string) => void;
}

/** The name in the files, with their documents kept for the loader. */
async function lastName(
  located: Located,
  session: Pick<Session, "files" | "documents">,
): Promise<string | undefined> {
  let name: string | undefined;
  for (const file of located.files) {
    const documents = await readYaml(await session.files.text(file, { named: true }), file);
    session.documents.set(file, documents);
    for (const { root } of documents) {
      const own = isMapping(root) ? root.get("name") : undefined;
      if (typeof own === "string" && own !== "") name = own;
    }
  }
  return name;
}

/** The merged tree of a project's files. Throws `compose_invalid`, `not_found`. */
export async function loadModel(options: LoadOptions, steps: LoadSteps = {}): Promise<Model> {
  const warnings: string[] = [];
  const warn = (text: string) => {
    if (!warnings.includes(text)) warnings.push(text);
  };
  const files = new Files(options.stdin, options.texts);
  const cwd = options.cwd ?? Deno.cwd();
  const located = await locate({ options, cwd, reader: files, warn });
  const { directory } = located;
  // As docker compose has it: where variables stay as they are written, none has a value.
  const environment = steps.interpolate === false ? new Map<string, string>() : located.environment;
  const interpolator = new Interpolator((name) => environment.get(name), unsetWarning(warn));
  const session: Session = {
    files,
    warn,
    interpolate: steps.interpolate ?? true,
    resolvePaths: steps.resolvePaths ?? true,
    ...(located.environment.has("HOME") && { home: located.environment.get("HOME") }),
    documents: new Map(),
    bases: new Map(),
  };
  const inFiles = await lastName(located, session);
  const name = nameProject(
    located,
    options.projectName,
    inFiles,
    session.interpolate ? interpolator : undefined,
    steps.normalise ?? true,
  );
  environment.set("COMPOSE_PROJECT_NAME", name);
  const unit = { files: located.files, directory, folder: directory, environment, interpolator };
  const root = await loadUnit(unit, session, [], session.resolvePaths);
  if (root.size === 0) throw invalid(located.files[0], "it is empty");
  if (steps.normalise ?? true) {
    root.set("name", name);
    withPlaces(root, located.files[0], () => normalise(root, (key) => environment.get(key)));
  }
  return { root, name, located, files, warnings, warn };
}

/** The project of a model: its services by profile, checked, with their environments. */
async function complete(model: Model, steps: LoadSteps): Promise<LoadedProject> {
  const { root, name, located, files, warnings, warn } = model;
  const first = located.files[0];
  root.set("name", name);
  const fields = withPlaces(root, first, () => decode(root, FILE)) as Partial<Project>;
  const { services, disabled } = splitByProfile(fields.services ?? {}, located.profiles);
  const project = {
    ...{ networks: {}, volumes: {}, secrets: {}, configs: {}, models: {} },
    ...{ ...fields, services },
  } as Project;
  const environment = Object.fromEntries(located.environment);
  try {
    if (steps.consistency ?? true) checkConsistency(project, disabled);
    for (const [key, service] of Object.entries(services)) {
      if (steps.resolveEnvironment ?? true) {
        await resolveServiceEnvironment(key, service, environment, files, warn);
      }
      await resolveServiceLabels(key, service, files, warn);
    }
  } catch (error) {
    throw placed(error, root, first);
  }
  return {
    project,
    directory: located.directory,
    files: located.files,
    environment,
    profiles: located.profiles,
    disabled,
    warnings,
    place: (...path) => placeAt(root, path),
  };
}

/**
 * Loads a project. Throws `compose_invalid` with file, line and path of what is wrong, `not_found` where there is
 * no Compose file, `argument_invalid` for a name that a project cannot have.
 */
export async function loadProject(
  options: LoadOptions,
  steps: LoadSteps = {},
): Promise<LoadedProject> {
  return await complete(await loadModel(options, steps), steps);
}
