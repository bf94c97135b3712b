/** Rules between the parts of a project: what a service names has to be there. */
import { Problem } from "./problem.ts";
import type { Project } from "./project.ts";
import type { Service } from "./service.ts";
import type { Path } from "./shape/shape.ts";
import { nearest } from "../base/nearest.ts";

type ResourceKind = "networks" | "volumes" | "secrets" | "configs" | "models";

interface Context {
  project: Project;
  disabled: Record<string, Service>;
}

function fail(path: Path, what: string, help?: string): never {
  throw new Problem(path, what, help);
}

/** What is there in place of another name. */
const nearby = (name: string, there: object) => {
  const near = nearest(name, Object.keys(there));
  return near ? `; did you mean ${near}?` : "";
};

function checkUses(service: Service, path: Path, { project }: Context): void {
  for (const { kind, key, at } of usesOf(service)) {
    const there = project[kind] ?? {};
    if (Object.hasOwn(there, key)) continue;
    const what = `there is no ${kind.slice(0, -1)} ${key}${nearby(key, there)}`;
    fail([...path, ...at], what, `declare it, under ${kind}`);
  }
}

function checkBuild(service: Service, path: Path, { project, disabled }: Context): void {
  const { build, platform } = service;
  if (!build) return;
  const at = [...path, "build"];
  if (build.dockerfile !== undefined && build.dockerfile_inline !== undefined) {
    fail([...at, "dockerfile_inline"], "dockerfile and dockerfile_inline exclude each other");
  }
  for (const [name, context] of Object.entries(build.additional_contexts ?? {})) {
    if (!context.startsWith("service:")) continue;
    const other = context.slice("service:".length);
    const found = project.services[other] ?? disabled[other];
    if (!found) fail([...at, "additional_contexts", name], `there is no service ${other}`);
    if (!found.build) fail([...at, "additional_contexts", name], `service ${other} has no build`);
  }
  if (build.platforms && platform && !build.platforms.includes(platform)) {
    fail([...at, "platforms"], `the service's platform ${platform} is not among them`);
  }
}

function checkNetworks(service: Service, path: Path, { project }: Context): void {
  const { network_mode: mode, networks } = service;
  if (mode && networks && Object.keys(networks).length > 0) {
    fail([...path, "network_mode"], "network_mode and networks exclude each other");
  }
  if (mode?.startsWith("service:")) {
    const other = mode.slice("service:".length);
    if (!Object.hasOwn(project.services, other)) {
      fail([...path, "network_mode"], `there is no service ${other}`);
    }
  }
}

function checkDependencies(service: Service, path: Path, { project, disabled }: Context): void {
  for (const [name, { required }] of Object.entries(service.depends_on ?? {})) {
    if (Object.hasOwn(project.services, name)) continue;
    const off = Object.hasOwn(disabled, name);
    if (off && !required) continue;
    if (off) {
      fail([...path, "depends_on", name], `none of the profiles of service ${name} is active`);
    }
    fail(
      [...path, "depends_on", name],
      `there is no service ${name}${nearby(name, project.services)}`,
    );
  }
}

/** The resources of a project that a service uses, each with where it says so. */
export function usesOf(service: Service): { kind: ResourceKind; key: string; at: Path }[] {
  const names = (kind: ResourceKind, map: object = {}) =>
    Object.keys(map).map((key) => ({ kind, key, at: [kind, key] }));
  const items = (kind: ResourceKind, list: { source?: string }[] = [], ...above: string[]) =>
    list.map(({ source: key = "" }, index) => ({ kind, key, at: [...above, kind, `${index}`] }));
  return [
    ...items("secrets", service.build?.secrets, "build"),
    ...names("networks", service.networks ?? {}),
    ...items("volumes", service.volumes).filter(({ key }, index) =>
      service.volumes![index].type === "volume" && key
    ),
    ...items("configs", service.configs),
    ...items("secrets", service.secrets),
    ...names("models", service.models),
  ];
}

function checkTargets(service: Service, path: Path): void {
  const targets = new Map<string, string>();
  const places: [string, Path][] = [
    ...(service.tmpfs ?? []).map((text, index): [string, Path] => [
      text.split(":", 1)[0],
      [...path, "tmpfs", String(index)],
    ]),
    ...(service.volumes ?? []).map(({ target }, index): [string, Path] => [
      target,
      [...path, "volumes", String(index)],
    ]),
  ];
  for (const [target, at] of places) {
    const before = targets.get(target);
    if (before !== undefined) fail(at, `${target} is mounted already, by ${before}`);
    targets.set(target, at.slice(2).join("."));
  }
}

function checkScale(service: Service, path: Path): void {
  const { scale, deploy, container_name: name } = service;
  const replicas = deploy?.replicas;
  if (scale !== undefined && replicas !== undefined && scale !== replicas) {
    fail([...path, "scale"], `scale (${scale}) and deploy.replicas (${replicas}) differ`);
  }
  if (scale !== undefined && scale < 0) fail([...path, "scale"], "it is below 0");
  if (replicas !== undefined && replicas < 0) {
    fail([...path, "deploy", "replicas"], "it is below 0");
  }
  // docker compose prints it in both places.
  if (scale !== undefined && deploy) deploy.replicas = scale;
  if ((scale ?? replicas ?? 1) > 1 && name) {
    fail(
      [...path, "container_name"],
      "several containers cannot have one name",
      "leave out container_name",
    );
  }
}

function checkLimits(service: Service, path: Path): void {
  const { limits, reservations } = service.deploy?.resources ?? {};
  const twins: [keyof Service, unknown, string][] = [
    ["cpus", limits && (limits.cpus ?? 0), "deploy.resources.limits.cpus"],
    ["mem_limit", limits && (limits.memory ?? "0"), "deploy.resources.limits.memory"],
    [
      "mem_reservation",
      reservations && (reservations.memory ?? "0"),
      "deploy.resources.reservations.memory",
    ],
    ["pids_limit", limits && (limits.pids ?? 0), "deploy.resources.limits.pids"],
  ];
  for (const [key, other, name] of twins) {
    const own = service[key];
    if (own === undefined || other === undefined || own === other) continue;
    fail([...path, key], `${key} (${own}) and ${name} (${other}) differ`);
  }
}

function checkRest(service: Service, path: Path): void {
  const [first] = service.healthcheck?.test ?? [];
  if (first !== undefined && !["CMD", "CMD-SHELL", "NONE"].includes(first)) {
    fail(
      [...path, "healthcheck", "test"],
      'the list has to begin with "CMD", "CMD-SHELL" or "NONE"',
    );
  }
  for (const [index, rule] of (service.develop?.watch ?? []).entries()) {
    if (rule.target || rule.action === "rebuild" || rule.action === "restart") continue;
    fail([...path, "develop", "watch", String(index)], `${rule.action} needs a target`);
  }
}

function checkCircles({ services }: Project): void {
  const done = new Set<string>();
  for (const start of Object.keys(services).sort()) {
    // By hand: a chain of ten thousand services must not overflow the stack.
    const path: { name: string; left: string[] }[] = [];
    const enter = (name: string) =>
      path.push({ name, left: Object.keys(services[name]?.depends_on ?? {}) });
    if (!done.has(start)) enter(start);
    while (path.length > 0) {
      const { name, left } = path.at(-1)!;
      const next = left.pop();
      if (next === undefined) {
        done.add(name);
        path.pop();
        continue;
      }
      const at = path.findIndex((one) => one.name === next);
      if (at >= 0) {
        const circle = [...path.slice(at).map((one) => one.name), next].join(" → ");
        fail(
          ["services", name, "depends_on"],
          `services depend on each other in a circle: ${circle}`,
        );
      }
      if (!done.has(next)) enter(next);
    }
  }
}

/** Throws {@linkcode Problem}. */
export function checkConsistency(project: Project, disabled: Record<string, Service>): void {
  const context = { project, disabled };
  for (const [name, service] of Object.entries(project.services)) {
    const path = ["services", name];
    if (!service.build && !service.image && !service.provider) {
      fail(path, "it has neither an image nor a build");
    }
    checkBuild(service, path, context);
    checkNetworks(service, path, context);
    checkDependencies(service, path, context);
    checkUses(service, path, context);
    checkTargets(service, path);
    checkScale(service, path);
    checkLimits(service, path);
    checkRest(service, path);
  }
  for (const [name, secret] of Object.entries(project.secrets ?? {})) {
    if (secret.external || secret.file || secret.environment) continue;
    fail(["secrets", name], "file or environment is missing");
  }
  checkCircles(project);
}

/** No two services may give their containers one name. Throws {@linkcode Problem}. */
export function checkContainerNames({ services }: Project): void {
  const names = new Map<string, string>();
  for (const [name, { container_name: container }] of Object.entries(services)) {
    if (!container) continue;
    const other = names.get(container);
    if (other) fail(["services", name, "container_name"], `service ${other} has this name too`);
    names.set(container, name);
  }
}
