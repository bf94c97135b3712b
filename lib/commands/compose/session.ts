/** What the commands of `svc compose` have in common: the project, the connection, the progress. */
import { SvcError } from "../../base/errors.ts";
import type { Client } from "../../client/client.ts";
import type { Connection } from "../../client/connection.ts";
import {
  type Container,
  containersOf,
  projectStates,
  type ServiceState,
} from "../../compose/state.ts";
import { suggestion } from "../../base/nearest.ts";
import { openConnection } from "../connect.ts";
import { type NamedProject, nameProject, type ProjectInvocation } from "./open_project.ts";

export interface Session extends NamedProject {
  connection: Connection;
  client: Client;
  /** The project's services on the server. */
  states: ServiceState[];
}

/** Opens the connection, and looks what of the project is there. The profiles of the named services are active. */
export async function openSession(
  invocation: ProjectInvocation,
  names?: readonly string[],
): Promise<Session> {
  const project = await nameProject(invocation, names);
  const connection = await openConnection(invocation);
  const { client } = connection;
  const states = await projectStates(client, project.name);
  return { ...project, connection, client, states };
}

/**
 * The named services that are there; without names all of them. One of `run` only with `oneOff`. Throws
 * `argument_invalid` for a name that neither the files nor the server know.
 */
export function chosen(
  { name: project, loaded, states }: Session,
  names: readonly string[],
  { oneOff = false } = {},
): ServiceState[] {
  const there = states.filter((state) => oneOff || !state.oneOff);
  const known = new Set([
    ...Object.keys(loaded?.project.services ?? {}),
    ...Object.keys(loaded?.disabled ?? {}),
    ...there.map(({ service }) => service),
  ]);
  for (const name of names) {
    if (known.has(name)) continue;
    throw new SvcError(
      "argument_invalid",
      `Cannot find service ${name}: the project ${project} has none of that name${
        suggestion(name, [...known])
      }`,
      { help: "`svc compose config --services` lists them" },
    );
  }
  return names.length === 0 ? there : there.filter(({ service }) => names.includes(service));
}

/** The container of that number, or the first. Throws `not_found`. */
export function containerOf(session: Session, service: string, index?: string): Container {
  const all = chosen(session, [service]).flatMap(containersOf);
  const wanted = index === undefined ? undefined : Number(index);
  const found = wanted === undefined ? all[0] : all.find(({ number }) => number === wanted);
  if (found) return found;
  throw new SvcError(
    "not_found",
    all.length === 0
      ? `Cannot use service ${service}: it has no container`
      : `Cannot use service ${service}: it has no container ${index}`,
    { help: "`svc compose ps -a` lists the containers" },
  );
}

/** Services of the project that its files do not have. */
export function orphansOf({ loaded, states }: Session): ServiceState[] {
  if (!loaded) return [];
  const known = { ...loaded.project.services, ...loaded.disabled };
  return states.filter(({ service, oneOff }) => !oneOff && !(service in known));
}

/** Milliseconds of a number of seconds. Throws `usage`. */
export function secondsOf(text: string | undefined, name: string): number | undefined {
  if (text === undefined) return undefined;
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text) * 1000;
  throw new SvcError("usage", `Cannot read ${name} ${JSON.stringify(text)}: expected seconds`);
}
