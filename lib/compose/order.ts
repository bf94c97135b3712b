/** In which order services start and stop. */
import { SvcError } from "../base/errors.ts";
import { suggestion } from "../base/nearest.ts";
import type { LoadedProject } from "./project.ts";
import { startOrder } from "./select.ts";

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
  const found = new Set(alone ? chosen : startOrder(project, chosen));
  return Object.keys(project.services).filter((name) => found.has(name));
}

/** What each of these services waits for, of these services. */
export function needsOf({ project }: LoadedProject, names: readonly string[]): Needs {
  const among = new Set(names);
  const after = (name: string) => Object.keys(project.services[name].depends_on ?? {});
  return new Map(
    names.map((name) => [name, new Set(after(name).filter((other) => among.has(other)))]),
  );
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
