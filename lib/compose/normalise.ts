/** What follows from the whole of a project: its default network, implied dependencies, names of resources. */
import type { Lookup } from "./interpolate.ts";
import { clean } from "./forms/mount.ts";
import { isList, isMapping, type List, type Mapping, mapping, type Value } from "./yaml/tree.ts";

const DEFAULT_NETWORK = "default";

function section(root: Mapping, key: string): Mapping {
  const value = root.get(key);
  return isMapping(value) ? value : new Map();
}

/** The mappings in a section, such as the services. */
const mappingsOf = (root: Mapping, key: string) =>
  [...section(root, key).values()].filter(isMapping);

const listOf = (value: Value | undefined): List => isList(value) ? value : [];

/**
 * Gives entries without a value (`- NAME`, `NAME:`) the variable's. Where it is unset the entry stays with
 * `keep`, and goes without.
 */
function resolveEntries(value: Value, lookup: Lookup, keep: boolean): Value {
  if (isList(value)) {
    return value.flatMap((item): Value[] => {
      if (typeof item !== "string" || item.includes("=")) return [item];
      const found = lookup(item);
      if (found !== undefined) return [`${item}=${found}`];
      return keep ? [item] : [];
    });
  }
  if (!isMapping(value)) return value;
  for (const [key, child] of value) {
    if (child !== null) continue;
    const found = lookup(key);
    if (found !== undefined) value.set(key, found);
    else if (!keep) value.delete(key);
  }
  return value;
}

/** Gives `- NAME` of a service's environment, and the content of configs, what the variables say. */
export function resolveVariables(root: Mapping, lookup: Lookup): void {
  for (const service of mappingsOf(root, "services")) {
    const environment = service.get("environment");
    if (!isList(environment)) continue;
    for (const [index, item] of environment.entries()) {
      const found = typeof item === "string" ? lookup(item) : undefined;
      if (found !== undefined) environment[index] = `${item}=${found}`;
    }
  }
  for (const config of mappingsOf(root, "configs")) {
    const name = config.get("environment");
    const found = typeof name === "string" ? lookup(name) : undefined;
    if (found !== undefined) config.set("content", found);
  }
}

function attachNetworks(root: Mapping): void {
  const networks = section(root, "networks");
  let used = false;
  for (const service of mappingsOf(root, "services")) {
    if (service.has("provider") || service.has("network_mode")) continue;
    const own = service.get("networks");
    if (!isMapping(own) || own.size === 0) {
      service.set("networks", new Map([[DEFAULT_NETWORK, null]]));
      used = true;
    } else if (own.has(DEFAULT_NETWORK)) used = true;
  }
  if (used && !networks.has(DEFAULT_NETWORK)) networks.set(DEFAULT_NETWORK, null);
  if (networks.size > 0) root.set("networks", networks);
}

function completeBuild(build: Mapping, lookup: Lookup): void {
  if ((build.get("context") ?? null) === null) build.set("context", ".");
  if (
    (build.get("dockerfile") ?? null) === null && (build.get("dockerfile_inline") ?? null) === null
  ) {
    build.set("dockerfile", "Dockerfile");
  }
  const args = build.get("args");
  if (args !== undefined) build.set("args", resolveEntries(args, lookup, false));
}

/** Adds what links, shared namespaces and volumes_from imply. */
function implyDependencies(service: Mapping): void {
  const depends = section(service, "depends_on");
  const imply = (name: string, restart: boolean) => {
    if (depends.has(name)) return;
    depends.set(name, mapping({ condition: "service_started", restart, required: true }));
  };
  for (const link of listOf(service.get("links"))) {
    const parts = String(link).split(":");
    imply(parts.length === 2 ? parts[0] : String(link), true);
  }
  for (const key of ["network_mode", "ipc", "pid", "uts", "cgroup"]) {
    const value = service.get(key);
    if (typeof value === "string" && value.startsWith("service:")) imply(value.slice(8), true);
  }
  for (const from of listOf(service.get("volumes_from"))) {
    const text = String(from);
    if (!text.startsWith("container:")) imply(text.split(":", 1)[0], false);
  }
  if (depends.size > 0) service.set("depends_on", depends);
}

function completeService(service: Mapping, lookup: Lookup): void {
  if (service.get("pull_policy") === "if_not_present") service.set("pull_policy", "missing");
  const build = service.get("build");
  if (isMapping(build)) completeBuild(build, lookup);
  const environment = service.get("environment");
  if (environment !== undefined) {
    service.set("environment", resolveEntries(environment, lookup, true));
  }
  implyDependencies(service);
  for (const volume of listOf(service.get("volumes")).filter(isMapping)) {
    const target = volume.get("target");
    if (typeof target === "string") volume.set("target", clean(target) || ".");
  }
}

/** Networks, volumes, configs and secrets without a name are PROJECT_KEY, or KEY where they are external. */
function nameResources(root: Mapping): void {
  for (const kind of ["networks", "volumes", "configs", "secrets"]) {
    const resources = section(root, kind);
    for (const [key, value] of resources) {
      const resource: Mapping = isMapping(value) ? value : new Map();
      if ((resource.get("name") ?? null) === null) {
        const external = resource.get("external");
        const own = external === true || external === "true";
        resource.set("name", own ? key : `${root.get("name")}_${key}`);
      }
      resources.set(key, resource);
    }
  }
}

/** Works on the tree itself; its `name` is the project's. */
export function normalise(root: Mapping, lookup: Lookup): void {
  attachNetworks(root);
  for (const service of mappingsOf(root, "services")) completeService(service, lookup);
  nameResources(root);
}
