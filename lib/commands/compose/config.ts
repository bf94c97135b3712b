/** `svc compose config`: the project as docker compose prints it; needs no server. */
import { createHash } from "node:crypto";
import { SvcError } from "../../base/errors.ts";
import { checkContainerNames } from "../../compose/consistency.ts";
import { collectVariables, type Variable } from "../../compose/interpolate.ts";
import { loadModel, loadProject, type LoadSteps } from "../../compose/load.ts";
import { printModel, printProject, serviceJson, writeJson } from "../../compose/print.ts";
import { Problem, problemAt } from "../../compose/problem.ts";
import type { LoadedProject, LoadOptions } from "../../compose/project.ts";
import { selectServices, startOrder, withoutUnused } from "../../compose/select.ts";
import { isList, isMapping, mapping, type Value } from "../../compose/yaml/tree.ts";
import { writeYaml } from "../../compose/yaml/write.ts";
import type { Values } from "../../config/load.ts";
import type { Invocation } from "../command.ts";
import type { CONFIG_OPTIONS } from "./config_options.ts";
import { devcontainerOf, loadOptionsOf } from "./open_project.ts";
import type { PROJECT_OPTIONS } from "./options.ts";

export type ConfigValues = Partial<Values<typeof CONFIG_OPTIONS>> & { allResources?: boolean };

/** What is printed, and what is warned of. */
export interface Rendered {
  text: string;
  warnings: readonly string[];
}

interface Request {
  options: LoadOptions;
  values: ConfigValues;
  steps: LoadSteps;
  services: readonly string[];
}

const lines = (names: readonly string[]) => names.map((name) => `${name}\n`).join("");

async function open(request: Request, resolveEnvironment: boolean): Promise<LoadedProject> {
  const { options, values, steps, services } = request;
  const loaded = selectServices(
    await loadProject(options, { ...steps, resolveEnvironment }),
    services,
  );
  return values.allResources ? loaded : { ...loaded, project: withoutUnused(loaded.project) };
}

function hashes({ project }: LoadedProject, wanted: string): string {
  const names = wanted === "*" ? Object.keys(project.services) : wanted.split(",");
  return lines(
    names.sort().map((name) => {
      if (!Object.hasOwn(project.services, name)) {
        throw new SvcError(
          "not_found",
          `Cannot hash service ${name}: the project has no such service`,
        );
      }
      const text = serviceJson(project.services[name]);
      return `${name} ${createHash("sha256").update(text).digest("hex")}`;
    }),
  );
}

function collect(value: Value, found: Map<string, Variable>): void {
  if (typeof value === "string") collectVariables(value, found);
  else if (isMapping(value)) { for (const child of value.values()) collect(child, found); }
  else if (isList(value)) { for (const child of value) collect(child, found); }
}

function variableTable(rows: [string, Variable][]): string {
  const table = [
    ["NAME", "REQUIRED", "DEFAULT VALUE", "ALTERNATE VALUE"],
    ...rows.map(([name, one]) => [name, String(one.required), one.default, one.alternate]),
  ];
  const widths = [0, 1, 2].map((column) =>
    Math.max(20, ...table.map((row) => [...row[column]].length + 3))
  );
  return lines(
    table.map((row) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("")),
  );
}

async function variables({ options, values, steps }: Request): Promise<Rendered> {
  const { root, warnings } = await loadModel(options, { ...steps, interpolate: false });
  const found = new Map<string, Variable>();
  collect(root, found);
  const rows = [...found].sort(([a], [b]) => a < b ? -1 : 1);
  if (values.format === undefined) return { text: variableTable(rows), warnings };
  const json = values.format === "json";
  const [name, standard, presence, required] = json
    ? ["Name", "DefaultValue", "PresenceValue", "Required"]
    : ["name", "defaultvalue", "presencevalue", "required"];
  const tree = new Map(rows.map(([key, one]) => [
    key,
    mapping({
      [name]: key,
      [standard]: one.default,
      [presence]: one.alternate,
      [required]: one.required,
    }),
  ]));
  const text = json
    ? `${writeJson(tree, "", "    ")}\n\n`
    : writeYaml(tree).replace(/^ {2}/gm, "    ");
  return { text, warnings };
}

/** The lists that a flag asks for instead of the project. */
const LISTS: Record<string, (loaded: LoadedProject) => string> = {
  configServices: ({ project }) => lines(startOrder(project)),
  configVolumes: ({ project }) => lines(Object.keys(project.volumes).sort()),
  configNetworks: ({ project }) => lines(Object.keys(project.networks).sort()),
  configModels: ({ project }) =>
    lines(Object.values(project.models).flatMap(({ model }) => model ?? []).sort()),
  configProfiles({ project, disabled }) {
    const all = [...Object.values(project.services), ...Object.values(disabled)];
    return lines([...new Set(all.flatMap(({ profiles = [] }) => profiles))].sort());
  },
  configImages: ({ project }) =>
    lines(
      Object.entries(project.services)
        .map(([name, { image }]) => image ?? `${project.name}-${name}`).sort(),
    ),
};

/** Lists of the whole project, whatever services are named, as docker compose has it. */
const WHOLE = ["configServices", "configVolumes", "configNetworks", "configModels"];

async function whole(request: Request): Promise<Rendered> {
  const { options, values, steps } = request;
  const format = values.format === "json" ? "json" : "yaml";
  if (values.noInterpolate) {
    const { root, warnings } = await loadModel(options, steps);
    return { text: printModel(root, format), warnings };
  }
  const loaded = await open(request, true);
  try {
    if (!values.noConsistency) checkContainerNames(loaded.project);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    throw problemAt(error, loaded.place(...error.path), loaded.files[0]);
  }
  return { text: printProject(loaded, format), warnings: loaded.warnings };
}

/** What the command prints. Throws what loading throws. */
export async function renderConfig(
  options: LoadOptions,
  values: ConfigValues,
  services: readonly string[],
): Promise<Rendered> {
  const steps: LoadSteps = {
    interpolate: !values.noInterpolate,
    normalise: !values.noNormalize,
    resolvePaths: !values.noPathResolution,
    consistency: !values.noConsistency,
  };
  const request = { options, values, steps, services };
  const list = Object.keys(LISTS).find((key) => values[key as keyof ConfigValues]);
  if (list !== undefined) {
    const loaded = await open(WHOLE.includes(list) ? { ...request, services: [] } : request, false);
    return { text: LISTS[list](loaded), warnings: loaded.warnings };
  }
  if (values.hash) {
    const loaded = await open({ ...request, services: [] }, false);
    return { text: hashes(loaded, values.hash), warnings: loaded.warnings };
  }
  if (values.variables) return await variables(request);
  if (values.environment) {
    const { environment, warnings } = await open(request, true);
    const pairs = Object.entries(environment).map((pair) => pair.join("="));
    return { text: lines(pairs.sort()), warnings };
  }
  const rendered = await whole(request);
  return values.configQuiet ? { ...rendered, text: "" } : rendered;
}

export async function run(
  invocation: Invocation<readonly [...typeof PROJECT_OPTIONS, ...typeof CONFIG_OPTIONS]>,
): Promise<number> {
  const { values, positionals, io } = invocation;
  const options = loadOptionsOf(invocation);
  const found = await devcontainerOf(invocation, options);
  const { text, warnings } = await renderConfig(
    found
      ? (await import("../../compose/devcontainer/model.ts")).devcontainerOptions(found, options)
      : options,
    values,
    positionals,
  );
  for (const warning of warnings) await io.stderr.write(`svc: warning: ${warning}\n`);
  if (values.outputFile && text !== "") await Deno.writeTextFile(values.outputFile, text);
  else await io.stdout.write(text);
  return 0;
}
