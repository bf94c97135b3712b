/** In which order services start and stop. */
import { SvcError } from "../base/errors.ts";
import { suggestion } from "../base/nearest.ts";
import type { LoadedProject } from "./project.ts";
import { placeOf } from "./refusal.ts";

/** Service → the services that it starts after. */
export type Needs = ReadonlyMap<string, ReadonlySet<string>>;

/** Throws `argument_invalid` for a name that the project does not have. */
export function requireServices({ project }: LoadedProject, names: readonly string[]): void {
  for (const name of names) {
    if (project.services[name]) continue;
    throw new SvcError(
      "argument_invalid",
      `Cannot find service ${name}: the project ${project.name} has none of that name${
        suggestion(name, Object.keys(project.services))
      }`,
      { help: "`svc compose config --services` lists them" },
    );
  }
}

/** The chosen services and, unless `alone`, all that they depend on. None chosen: all of them. */
export function selected(
  loaded: LoadedProject,
  chosen: readonly string[],
  alone = false,
): string[] {
  requireServices(loaded, chosen);
  const { project } = loaded;
  if (chosen.length === 0) return Object.keys(project.services);
  const found = new Set<string>();
  const take = (name: string) => {
    if (found.has(name) || !project.services[name]) return;
    found.add(name);
    if (alone) return;
    for (const one of Object.keys(project.services[name].depends_on ?? {})) take(one);
  };
  for (const name of chosen) take(name);
  return Object.keys(project.services).filter((name) => found.has(name));
}

/**
 * What each of these services waits for, of these services. Throws `spec_invalid` for a circle, and for a service
 * that is needed and not there.
 */
export function needsOf(loaded: LoadedProject, names: readonly string[]): Needs {
  const { project, disabled } = loaded;
  const needs = new Map<string, Set<string>>();
  for (const name of names) {
    const after = Object.entries(project.services[name].depends_on ?? {});
    for (const [other, { required = true }] of after) {
      if (project.services[other] || !required) continue;
      const inactive = disabled[other];
      throw new SvcError(
        "spec_invalid",
        `Cannot use ${placeOf(loaded, ["services", name, "depends_on", other])}: ${
          inactive ? "no active profile has that service" : "there is no such service"
        }`,
        { help: inactive ? "name its profile with --profile" : "correct the name" },
      );
    }
    needs.set(
      name,
      new Set(after.map(([other]) => other).filter((other) => names.includes(other))),
    );
  }
  checkCircles(loaded, needs);
  return needs;
}

function checkCircles(loaded: LoadedProject, needs: Needs): void {
  const done = new Set<string>();
  for (const start of needs.keys()) {
    // By hand: a chain of ten thousand services must not overflow the stack.
    const path: { name: string; left: string[] }[] = [];
    const enter = (name: string) => path.push({ name, left: [...needs.get(name) ?? []] });
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
        const circle = [...path.slice(at).map((one) => one.name), next].join(" -> ");
        throw new SvcError(
          "spec_invalid",
          `Cannot use ${placeOf(loaded, ["services", name, "depends_on"])}: ` +
            `dependency cycle detected: ${circle}`,
          { help: "remove one of the dependencies" },
        );
      }
      if (!done.has(next)) enter(next);
    }
  }
}

/** The other way round: who has to stop before a service stops. */
export function reversed(needs: Needs): Needs {
  const turned = new Map([...needs.keys()].map((name) => [name, new Set<string>()]));
  for (const [name, after] of needs) {
    for (const other of after) turned.get(other)?.add(name);
  }
  return turned;
}

/**
 * Does the work of each service once that of those it needs is done; independent ones at the same time. After a
 * failure nothing new begins, what is under way ends, and the first error is thrown.
 */
export async function inOrder(
  needs: Needs,
  work: (name: string) => Promise<void>,
): Promise<void> {
  const begun = new Map<string, Promise<void>>();
  let failed = false;
  let first: unknown;
  const begin = (name: string): Promise<void> => {
    const known = begun.get(name);
    if (known) return known;
    const after = [...needs.get(name) ?? []];
    const doing = (async () => {
      await Promise.all(after.map((other) => begin(other)));
      if (failed) return;
      try {
        await work(name);
      } catch (error) {
        if (!failed) first = error;
        failed = true;
      }
    })();
    begun.set(name, doing);
    return doing;
  };
  await Promise.all([...needs.keys()].map(begin));
  if (failed) throw first;
}
