/** What is kept of a container beside its deployment. */
import type { MountSpec } from "../../api/deploy_spec.ts";
import type { ContainerConfig, EndpointSettings, HostConfig } from "../bodies.ts";

/** A mount as `docker inspect` shows it. */
export interface MountPoint {
  Type: "bind" | "volume" | "tmpfs";
  Name?: string;
  Source: string;
  Destination: string;
  Driver?: string;
  Mode: string;
  RW: boolean;
  Propagation: string;
}

export interface ContainerRecord {
  id: string;
  /** Without a slash. */
  name: string;
  /** The deployment's name. */
  deployment: string;
  /** The instance of a deployment that svc's own clients made; absent: the container is all of it. */
  instance?: string;
  /** RFC 3339. */
  created: string;
  /** As the client named it. */
  image: string;
  /** Its config's digest; empty where it is not known. */
  imageId: string;
  /** As it was given. */
  given: ContainerConfig;
  /** With what the image adds. */
  config: ContainerConfig;
  hostConfig: HostConfig;
  /** By the networks' names. */
  endpoints: Record<string, EndpointSettings>;
  mounts: MountPoint[];
  /** Volumes without a name, which `rm -v` and `--rm` take along. */
  anonymous: string[];
  /** The server's name of the image, and the folders of this machine. */
  source: { image: string; binds: MountSpec[] };
  /** Its folders of this machine are held by a session of this process, and it ends with that. */
  session?: boolean;
  /** It was started at least once. */
  started?: boolean;
}

/** Labels of a container's deployment, by which it is found again where its record is lost. */
export const LABELS = { id: "svc.docker.id", name: "svc.docker.name" } as const;

/**
 * Before the names of labels that clients give, on the server: programs beside an engine act on labels by their names,
 * for which reason a server permits few of them (SVC_ALLOW_PRIVILEGED). Nothing acts on these.
 */
const GIVEN = "svc.docker.label.";

type Labels = Record<string, string>;

export const keptLabels = (labels: Labels | null | undefined): Labels =>
  Object.fromEntries(Object.entries(labels ?? {}).map(([name, value]) => [GIVEN + name, value]));

/** As they were given. */
export const givenLabels = (labels: Labels): Labels =>
  Object.fromEntries(
    Object.entries(labels).flatMap(([name, value]) => {
      if (name.startsWith(GIVEN)) return [[name.slice(GIVEN.length), value]];
      return name.startsWith("svc.docker.") ? [] : [[name, value]];
    }),
  );
