/**
 * What every engine that runs containers on one host does with the fields of a deployment spec. Each engine's own
 * list adds the fields in which engines differ: the type checker refuses one that lacks any.
 */
import type { EgressMode } from "../../../lib/api/egress.ts";
import type { Checked, FieldRules, Told } from "../../../lib/deploy/fields.ts";

export const told = (reason: string): Told => ({ told: reason });

/** What no two instances can have. */
export const single = <V>(which = ""): Checked<V> => ({
  only: `${which}with one replica`,
  check: (value, { replicas }) =>
    value && replicas > 1 ? `${replicas} replicas cannot have the same` : undefined,
});

const CLUSTER_INGRESS = "a cluster's ingress controller; this server routes itself";

/** The values that the backend supports; the empty one is none. `backend`: its name in reasons. */
export const among = (backend: string, ...values: string[]): Checked<string> => ({
  only: values.join(" or "),
  check: (value) =>
    value === "" || values.includes(value)
      ? undefined
      : `${value} is not honoured by the ${backend} backend`,
});

/** Options of the backend that match. `only`: in words. */
export const matching = (backend: string, only: string, pattern: RegExp): Checked<string> => ({
  only,
  check: (value) =>
    pattern.test(value) ? undefined : `${value} is not honoured by the ${backend} backend`,
});

/** The networks host and none are a workload's only one, and have nothing of their own. */
export const networkApart = ({ networks }: { networks: readonly { name: string }[] }) =>
  networks.find(({ name }) => name === "host" || name === "none")?.name;

/** `kinds`: of the deliveries that the backend takes. */
export const credentialFields = (backend: string, ...kinds: string[]) => ({
  sources: {
    ...honoured("name", "backend", "config", "ttl"),
    deliver: {
      ...honoured("provider", "wellKnown", "path", "format", "envVar", "valueKey", "upstream"),
      kind: among(backend, ...kinds),
    },
  },
});

/** Networks have more differences between engines than likenesses. */
type Differing = "ports" | "volumes" | "networks" | "hostname" | "healthcheck" | "securityOpt";

export const honoured = <const Names extends readonly string[]>(...names: Names) =>
  Object.fromEntries(names.map((name) => [name, "honoured"])) as Record<Names[number], "honoured">;

/**
 * `backend`: its name in reasons; `folders`: whose folders mounts are of, "the host"; `relays`: modes of egress
 * besides env.
 */
export const hostFields = (
  backend: string,
  folders: string,
  relays: readonly EgressMode[] = [],
) => {
  const uncached = told(
    `folders of ${folders} are mounted themselves; there is no cache in between`,
  );
  const namespaces = among(backend, "host", "private");
  return {
    ...honoured("name", "image", "command", "entrypoint", "env", "restart", "replicas"),
    ...honoured("privileged", "user", "workingDir", "labels", "stopSignal", "stopGracePeriod"),
    ...honoured("init", "tty", "stdinOpen", "readOnly", "capAdd", "capDrop", "groupAdd", "sysctls"),
    ...honoured("extraHosts", "dnsServers", "dnsSearch", "dnsOptions", "tmpfs", "devices"),
    ...honoured("shells", "strict"),
    expose: honoured("container", "protocol"),
    mounts: {
      ...honoured("source", "target", "readOnly"),
      selinux: told(`label the folder on ${folders}`),
      immutable: uncached,
      asyncCache: uncached,
    },
    resources: honoured("cpuLimit", "memoryLimit", "reservedCpu", "reservedMemory"),
    updateConfig: honoured("parallelism", "order"),
    origin: {
      ...honoured("project", "host", "user", "directory", "subject"),
      git: honoured("remote", "branch", "commit", "dirty"),
    },
    ulimits: honoured("name", "soft", "hard"),
    restartMaxAttempts: {
      only: "with restart: on-failure",
      check: (_attempts, { restart }) =>
        restart === "on-failure" ? undefined : `restart: ${restart} does not count attempts`,
    },
    shmSize: {
      only: "without ipcMode: host",
      check: (_size, { ipcMode }) =>
        ipcMode === "host" ? "with ipcMode: host it is the host's /dev/shm" : undefined,
    },
    pidMode: namespaces,
    ipcMode: namespaces,
    ingress: {
      ...honoured("enabled", "hosts", "domain", "subdomain", "path", "pathType", "port"),
      className: told(`it names ${CLUSTER_INGRESS}`),
      annotations: told(`they are for ${CLUSTER_INGRESS}`),
      tls: told("this server serves plain HTTP; HTTPS is for a proxy or a tunnel in front of it"),
    },
    egress: {
      ...honoured("proxies", "default", "listenPort"),
      // A mode that the backend lacks is refused before that (lib/deploy/services.ts).
      mode: among(backend, "env", ...relays),
      rules: honoured("pattern", "route"),
      script: told("this build evaluates no script; use rules"),
    },
    proxy: told("this build runs no proxy beside a workload"),
    dns: told("this build keeps no records for a workload; use extraHosts, or networks[].aliases"),
    hub: told("this build has no hub"),
    docker: told("this build gives workloads no Docker API"),
    credentials: credentialFields(backend, "file"),
    knative: told("it is for a cluster with Knative"),
    agentForward: told("this build forwards no SSH agent to a workload"),
    telemetry: told("this build collects no telemetry; svc logs shows what a workload prints"),
  } satisfies Omit<FieldRules, Differing>;
};
