/**
 * How the parts of a Compose project are called on a server. A service is one deployment with as many instances as
 * it has containers; docker compose numbers containers from 1, a deployment its instances from 0.
 */
import { createHash } from "node:crypto";

/** Labels of a project's deployments: how its parts are found again without its files. */
export const LABELS = {
  project: "svc.compose.project",
  service: "svc.compose.service",
  /** Names of services, separated by commas: those are stopped later. */
  dependsOn: "svc.compose.depends-on",
  /** "true": made by `svc compose run`. */
  oneOff: "svc.compose.oneoff",
  /** The `container_name` of the service. */
  container: "svc.compose.container-name",
  /** Whom commands in a dev container run as. */
  remoteUser: "svc.compose.remote-user",
} as const;

/** Characters of a deployment's name, which leaves room for "-999" after it. */
const LONGEST = 58;

/** A DNS label. Names that it changes get a hash: no two names become one. */
export function deploymentName(project: string, service: string): string {
  const name = `${project}-${service}`;
  const label = name.toLowerCase().replace(/[^a-z0-9-]+/g, "-").replace(/^-+|-+$/g, "");
  if (label === name && label.length <= LONGEST) return label;
  const hash = createHash("sha256").update(name).digest("hex").slice(0, 6);
  return `${label.slice(0, LONGEST - 7).replace(/-+$/, "")}-${hash}`;
}

/** The number of an instance, from its id: that of "shop-web-0" is 1. */
export function numberOf(deployment: string, instance: string): number {
  return Number(instance.slice(deployment.length + 1)) + 1;
}

/** The id of the instance of that number. */
export const instanceOf = (deployment: string, number: number) => `${deployment}-${number - 1}`;

/** "shop-web-1", or the service's `container_name`. */
export function containerName(
  { project, service, container }: { project: string; service: string; container?: string },
  number: number,
): string {
  return container ?? `${project}-${service}-${number}`;
}
