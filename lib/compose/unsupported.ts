/**
 * Fields of services that svc does not do: an error where docker compose does something with them, a warning where
 * it does nothing either. A field that is in neither list is done, by the modules beside this one.
 */
import { checkHooks } from "./hooks.ts";
import type { LoadedProject } from "./project.ts";
import type { Service } from "./service.ts";
import { type Path, placeOf, refusal } from "./refusal.ts";

const TUNING = "the server gives no such limit to a workload";
const ISOLATION = "the server isolates all workloads in the same way";

const REFUSED = {
  annotations: "an engine's annotations are not passed on; use labels",
  blkio_config: TUNING,
  cgroup: ISOLATION,
  cgroup_parent: ISOLATION,
  cpu_count: TUNING,
  cpu_percent: TUNING,
  cpu_period: "use cpus",
  cpu_quota: "use cpus",
  cpu_rt_period: TUNING,
  cpu_rt_runtime: TUNING,
  cpu_shares: "use deploy.resources.reservations.cpus",
  cpuset: TUNING,
  credential_spec: "it is for Windows containers",
  device_cgroup_rules: TUNING,
  domainname: "write the whole name as hostname",
  external_links: "use a network that both services are on, and aliases",
  gpus: "the server gives no GPUs to a workload",
  isolation: "it is for Windows containers",
  mem_swappiness: TUNING,
  memswap_limit: TUNING,
  models: "svc runs no models",
  oom_kill_disable: TUNING,
  oom_score_adj: TUNING,
  pids_limit: "SVC_WORKLOAD_PIDS_LIMIT of the server is the limit of all workloads",
  runtime: "the server chooses the runtime",
  storage_opt: TUNING,
  use_api_socket: "svc gives workloads no engine's socket",
  userns_mode: ISOLATION,
  uts: ISOLATION,
  volumes_from: "name the volumes in both services",
} as const satisfies { [field in keyof Service]?: string };

const REFUSED_DEPLOY: Readonly<Record<string, string>> = {
  mode: "services run as many replicas as they say",
};

/** docker compose does nothing with these on one host. */
const TOLD_DEPLOY = ["endpoint_mode", "placement", "rollback_config"];

const isSet = (value: unknown) =>
  value !== undefined && value !== null && value !== false &&
  !(typeof value === "object" && Object.keys(value).length === 0);

/** Throws for the first field that is refused. Returns warnings for those without an effect. */
export function checkService(loaded: LoadedProject, name: string, service: Service): string[] {
  const warnings: string[] = [];
  const fields = service as unknown as Record<string, unknown>;
  const at = (...rest: Path) => ["services", name, ...rest];
  for (const [field, why] of Object.entries(REFUSED)) {
    if (isSet(fields[field])) throw refusal(loaded, at(field), why);
  }
  checkHooks(loaded, at("post_start"), service.post_start);
  checkHooks(loaded, at("pre_stop"), service.pre_stop);
  const deploy = (fields.deploy ?? {}) as Record<string, unknown>;
  for (const [field, why] of Object.entries(REFUSED_DEPLOY)) {
    if (isSet(deploy[field]) && deploy[field] !== "replicated") {
      throw refusal(loaded, at("deploy", field), why);
    }
  }
  const { reservations } = (deploy.resources ?? {}) as { reservations?: Record<string, unknown> };
  for (const field of ["devices", "generic_resources"]) {
    if (isSet(reservations?.[field])) {
      throw refusal(
        loaded,
        at("deploy", "resources", "reservations", field),
        "the server has no such resources to give",
      );
    }
  }
  const { limits } = (deploy.resources ?? {}) as { limits?: Record<string, unknown> };
  if (isSet(limits?.pids)) {
    throw refusal(loaded, at("deploy", "resources", "limits", "pids"), REFUSED.pids_limit);
  }
  for (const [index, link] of (service.links ?? []).entries()) {
    const [other, alias = other] = link.split(":");
    // By its own name a service is found anyway.
    if (alias !== other) {
      throw refusal(
        loaded,
        at("links", index),
        `write ${alias} as an alias of ${other}'s networks`,
      );
    }
  }
  for (const field of TOLD_DEPLOY) {
    if (isSet(deploy[field])) {
      warnings.push(`${placeOf(loaded, at("deploy", field))}: it has no effect on one host`);
    }
  }
  if (isSet(fields.logging)) {
    warnings.push(
      `${placeOf(loaded, at("logging"))}: the server keeps the logs itself; see svc compose logs`,
    );
  }
  if (isSet(fields.platform)) {
    warnings.push(
      `${placeOf(loaded, at("platform"))}: the image runs as the server's own platform`,
    );
  }
  return warnings;
}
