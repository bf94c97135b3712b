/** What the parts of a service's spec are made of. */
import type { SvcError } from "../base/errors.ts";
import type { LoadedProject, Project } from "./project.ts";
import type { Service } from "./service.ts";
import { type Path, refusal } from "./refusal.ts";

/** What a spec needs besides the project's files. */
export interface Surroundings {
  /**
   * True: the server is on this machine, and mounts this machine's folders itself. Else they are mounted from here, as
   * {@linkcode callerMounts} tells.
   */
  localFolders: boolean;
}

/** Of one service, while its spec is made. */
export interface Subject {
  loaded: LoadedProject;
  name: string;
  service: Service;
  surroundings: Surroundings;
}

/** A path in the service. */
export const at = ({ name }: Subject, ...rest: Path): Path => ["services", name, ...rest];

export const refuse = (of: Subject, path: Path, why: string, help?: string): SvcError =>
  refusal(of.loaded, at(of, ...path), why, help);

/** Instances: `deploy.replicas` goes before `scale`. */
export function replicasOf({ scale, deploy }: Service): number {
  return deploy?.replicas ?? scale ?? 1;
}

/** The name of the image that a service without `image` is built as. */
export function imageOf({ name: project }: Project, name: string, { image }: Service): string {
  return image ?? `${project}-${name}`;
}

/** All values as texts. */
export const texts = (map: Record<string, unknown>): Record<string, string> =>
  Object.fromEntries(Object.entries(map).map(([key, value]) => [key, String(value ?? "")]));
