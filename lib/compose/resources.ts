/** The networks and volumes of a project. The server makes them with the first deployment that names them. */
import type { DeploySpec } from "../api/deploy_spec.ts";
import { SvcError } from "../base/errors.ts";
import type { Client } from "../client/client.ts";
import { listManaged, type ManagedKind, removeManaged } from "../client/workloads.ts";
import type { LoadedProject } from "./project.ts";
import { placeOf } from "./refusal.ts";
import { done, failing, type Report, working } from "./steps.ts";

/** Names of those that there are; undefined where the backend does not tell. */
async function namesOf(client: Client, kind: ManagedKind): Promise<Set<string> | undefined> {
  try {
    return new Set((await listManaged(client, kind)).map(({ name }) => name));
  } catch (error) {
    if (error instanceof SvcError && error.code === "unsupported") return undefined;
    throw error;
  }
}

const OWN = ["host", "none"];

const idsOf = ({ networks, volumes }: DeploySpec) => [
  ...networks.filter(({ name }) => !OWN.includes(name)).map(({ name }) => `Network ${name}`),
  ...volumes.map(({ name }) => `Volume ${name}`),
];

/** Throws `not_found` for an external one that is not there. */
function requireExternal(
  loaded: LoadedProject,
  kind: ManagedKind,
  there: ReadonlySet<string>,
  used: ReadonlySet<string>,
): void {
  for (const [key, one] of Object.entries(loaded.project[kind])) {
    if (!one.external || there.has(one.name) || OWN.includes(one.name) || !used.has(one.name)) {
      continue;
    }
    const word = kind === "networks" ? "network" : "volume";
    throw new SvcError(
      "not_found",
      `Cannot use ${placeOf(loaded, [kind, key])}: ${word} ${one.name} declared as external, ` +
        "but could not be found",
      { help: `\`svc ${word} ls\` lists those of the server; without external it is made` },
    );
  }
}

/** Tells what is made with deployments, once each. */
export class Resources {
  readonly #report: Report;
  /** Ids of those that are there, or that are being made. */
  readonly #known: Set<string>;

  private constructor(report: Report, known: Set<string>) {
    this.#report = report;
    this.#known = known;
  }

  static async open(
    client: Client,
    loaded: LoadedProject,
    report: Report,
    specs: ReadonlyMap<string, DeploySpec>,
  ): Promise<Resources> {
    const [networks, volumes] = await Promise.all([
      namesOf(client, "networks"),
      namesOf(client, "volumes"),
    ]);
    const all = [...specs.values()];
    const used = {
      networks: new Set(all.flatMap(({ networks }) => networks.map(({ name }) => name))),
      volumes: new Set(all.flatMap(({ volumes }) => volumes.map(({ name }) => name))),
    };
    if (networks) requireExternal(loaded, "networks", networks, used.networks);
    if (volumes) requireExternal(loaded, "volumes", volumes, used.volumes);
    const known = new Set([
      ...[...networks ?? used.networks].map((name) => `Network ${name}`),
      ...[...volumes ?? used.volumes].map((name) => `Volume ${name}`),
    ]);
    return new Resources(report, known);
  }

  /** A deployment is about to be applied; returns what is made with it. */
  begin(spec: DeploySpec): string[] {
    const made = idsOf(spec).filter((id) => !this.#known.has(id));
    for (const id of made) {
      this.#known.add(id);
      working(this.#report, id, "Creating");
    }
    return made;
  }

  end(made: readonly string[]): void {
    for (const id of made) done(this.#report, id, "Created");
  }
}

/**
 * Removes volumes, or tells that networks are gone: the server removes a network with the last deployment on it.
 * One that somebody else still uses stays, which is told.
 */
export async function removeResources(
  client: Client,
  kind: ManagedKind,
  names: readonly string[],
  report: Report,
): Promise<void> {
  await Promise.all(names.map(async (name) => {
    const id = `${kind === "networks" ? "Network" : "Volume"} ${name}`;
    working(report, id, "Removing");
    try {
      await removeManaged(client, kind, name);
    } catch (error) {
      const { code } = error as SvcError;
      if (code === "conflict") {
        return report({ id, status: "Resource is still in use", end: "warning" });
      }
      if (code !== "not_found" && code !== "unsupported") failing(report, [id])(error);
    }
    done(report, id, "Removed");
  }));
}

/** Those of the given names that there are. */
export async function present(
  client: Client,
  kind: ManagedKind,
  wanted: (name: string) => boolean,
): Promise<string[]> {
  return [...await namesOf(client, kind) ?? []].filter(wanted);
}
