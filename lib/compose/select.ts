/** Which services of a project count: by profiles and by name, and the resources that they use. */
import { SvcError } from "../base/errors.ts";
import { suggestion } from "../base/nearest.ts";
import { usesOf } from "./consistency.ts";
import type { LoadedProject, Project } from "./project.ts";
import type { Service } from "./service.ts";

function active(service: Service, profiles: readonly string[]): boolean {
  const own = service.profiles ?? [];
  return own.length === 0 || profiles.some((profile) => profile === "*" || own.includes(profile));
}

const record = <T>(entries: Iterable<readonly [string, T]>): Record<string, T> =>
  Object.assign(Object.create(null), Object.fromEntries(entries));

/** Splits services into those that the profiles make active, and the others. */
export function splitByProfile(
  services: Readonly<Record<string, Service>>,
  profiles: readonly string[],
): { services: Record<string, Service>; disabled: Record<string, Service> } {
  const entries = Object.entries(services);
  return {
    services: record(entries.filter(([, service]) => active(service, profiles))),
    disabled: record(entries.filter(([, service]) => !active(service, profiles))),
  };
}

/** Whether a name, which may have `*` and `?`, means the service. */
function matches(pattern: string, name: string): boolean {
  if (!/[*?]/.test(pattern)) return pattern === name;
  const escaped = pattern.replace(/[.+^${}()|[\]\\]/g, "\\$&");
  return new RegExp(`^${escaped.replaceAll("*", "[^/]*").replaceAll("?", "[^/]")}$`).test(name);
}

function named(pattern: string, project: Project, disabled: Record<string, Service>): string[] {
  const found = Object.keys(project.services).filter((name) => matches(pattern, name));
  if (found.length > 0) return found;
  const all = [...Object.keys(project.services), ...Object.keys(disabled)];
  const off = Object.hasOwn(disabled, pattern);
  throw new SvcError(
    "not_found",
    off
      ? `Cannot select service ${pattern}: none of its profiles is active`
      : `Cannot select service ${pattern}: the project has no such service${
        suggestion(pattern, all)
      }`,
    {
      help: off
        ? "name one of them with --profile"
        : "list them with `svc compose config --services`",
    },
  );
}

/** Services in the order in which they start: what a service depends on before it, else by name. */
export function startOrder(
  project: Project,
  names: readonly string[] = Object.keys(project.services),
): string[] {
  const seen = new Set<string>();
  const order: string[] = [];
  const visit = (name: string): void => {
    if (seen.has(name) || !Object.hasOwn(project.services, name)) return;
    seen.add(name);
    for (const dependency of Object.keys(project.services[name].depends_on ?? {}).sort()) {
      visit(dependency);
    }
    order.push(name);
  };
  for (const name of names.toSorted()) visit(name);
  return order;
}

/** The project with the profiles of the named services active, as docker compose does for who names a service. */
export function enableNamed(loaded: LoadedProject, names: readonly string[]): LoadedProject {
  const wanted = names.filter((name) => Object.hasOwn(loaded.disabled, name));
  if (wanted.length === 0) return loaded;
  const profiles = [
    ...loaded.profiles,
    ...wanted.flatMap((name) => loaded.disabled[name].profiles ?? []),
  ];
  const all = { ...loaded.disabled, ...loaded.project.services };
  const { services, disabled } = splitByProfile(all, profiles);
  return { ...loaded, profiles, project: { ...loaded.project, services }, disabled };
}

/**
 * The project with the named services (and those they depend on) alone; a name makes the profiles of its service
 * active. All of them without names. Throws `not_found`.
 */
export function selectServices(whole: LoadedProject, names: readonly string[]): LoadedProject {
  if (names.length === 0) return whole;
  const loaded = enableNamed(whole, names);
  const { project, project: { services }, disabled } = loaded;
  const chosen = names.flatMap((name) => named(name, project, disabled));
  const kept = new Set(startOrder(project, chosen));
  const own = record(Object.entries(services).filter(([name]) => kept.has(name)));
  const others = record(Object.entries(services).filter(([name]) => !kept.has(name)));
  return {
    ...loaded,
    project: { ...project, services: own },
    disabled: { ...disabled, ...others },
  };
}

/** The project without networks, volumes, configs, secrets and models that none of its services uses. */
export function withoutUnused(project: Project): Project {
  const uses = Object.values(project.services).flatMap(usesOf);
  const used = new Set(uses.map(({ kind, key }) => `${kind}.${key}`));
  const only = <T>(kind: string, resources: Record<string, T> = {}) =>
    record(Object.entries(resources).filter(([key]) => used.has(`${kind}.${key}`)));
  return {
    ...project,
    networks: only("networks", project.networks),
    volumes: only("volumes", project.volumes),
    secrets: only("secrets", project.secrets),
    configs: only("configs", project.configs),
    models: only("models", project.models),
  };
}
