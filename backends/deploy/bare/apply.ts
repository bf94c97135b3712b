/** Making a deployment what its spec says: new, unchanged, or replaced behind a gate. */
import { createHash } from "node:crypto";
import { parseDuration } from "../../../lib/base/duration.ts";
import { SvcError } from "../../../lib/base/errors.ts";
import type { DeploySpec } from "../../../lib/api/deploy_spec.ts";
import type { ApplyAction, PublishedPort } from "../../../lib/api/deployment.ts";
import type { ApplyProgress } from "../../../lib/deploy/backend.ts";
import { containerPlan, imageWarnings } from "../../../lib/deploy/container_config.ts";
import { refuseIfStrict } from "../../../lib/deploy/honour.ts";
import { requirePermitted } from "../../../lib/deploy/privileges.ts";
import { choosePorts, requireFree } from "../../../lib/deploy/host_ports.ts";
import type { ResolvedImage } from "../../../lib/oci/resolver.ts";
import { checkBinds } from "./binds.ts";
import type { Deployment } from "./deployment.ts";
import { portsToTakeOver } from "./gate.ts";
import type { BareOptions, Host } from "./host.ts";
import type { Instance } from "./instance.ts";
import { canPublish, publish, withdraw } from "./networks.ts";
import type { InstanceRecord, NetworkChoice } from "./record.ts";
import { drained, settled } from "./trial.ts";
import { bareWarnings } from "./unhonoured.ts";

/**
 * How long an instance without a health check has to run to count as up, in milliseconds. One that
 * listens on the ports it publishes is up at once.
 */
const FIRST_WINDOW = 100;
/** The same where it takes another's place. */
const REPLACE_WINDOW = 1000;
/** How long it may take to listen on the ports that the one before it answers on. */
const TAKE_OVER_MS = 5 * 60_000;

/** Runs alone, with the ports that other deployments publish; what it marks as published is then taken. */
export type Reserve = <T>(
  work: (taken: { port: PublishedPort; by: string }[]) => Promise<T>,
) => Promise<T>;

export interface ApplyContext {
  host: Host;
  images: BareOptions["images"];
  unpack: BareOptions["unpack"];
  reserve: Reserve;
  /** The networks of all instances, and of those of other deployments. */
  choices: () => { users: NetworkChoice[]; others: NetworkChoice[] };
  onProgress: ApplyProgress;
  signal?: AbortSignal;
}

/** Equal for equal specs, whatever the order of their members, and equal images. */
export function specHash(spec: DeploySpec, imageDigest: string): string {
  const canonical = (value: unknown): unknown =>
    Array.isArray(value)
      ? value.map(canonical)
      : value !== null && typeof value === "object"
      ? Object.fromEntries(
        Object.entries(value).sort(([a], [b]) => a < b ? -1 : 1).map(([k, v]) => [k, canonical(v)]),
      )
      : value;
  // Where it was deployed from changes nothing of what runs.
  const { origin: _origin, ...rest } = spec;
  return createHash("sha256").update(JSON.stringify([canonical(rest), imageDigest])).digest("hex");
}

function newRecord(
  spec: DeploySpec,
  image: ResolvedImage,
  replica: number,
  rest: Pick<InstanceRecord, "choice" | "ports"> & Partial<InstanceRecord>,
): InstanceRecord {
  const random = crypto.randomUUID().slice(0, 6);
  return {
    key: `${spec.name}-${replica}-${random}`,
    replica,
    phase: "creating",
    plan: containerPlan(spec, image.config.config ?? {}),
    networks: [],
    hostname: spec.hostname ?? `${spec.name}-${replica}`,
    // On disk before any rule is made, so that a restart knows to look for them.
    published: rest.ports.length > 0,
    restarts: 0,
    ...rest,
  };
}

/** Starts what is not running of a deployment that is otherwise as it should be. */
export async function ensureRunning(
  deployment: Deployment,
  reserve: Reserve,
  host: Host,
  signal?: AbortSignal,
): Promise<void> {
  const { record } = deployment;
  const idle = deployment.ready.filter((instance) => !instance.running);
  const hidden = idle.filter((one) => one.record.ports.length > 0 && !one.record.published);
  await reserve(async (taken) => {
    for (const one of hidden) await requireFree(one.record.ports, taken);
    for (const one of hidden) one.record.published = true;
  });
  record.stopped = false;
  delete record.error;
  await deployment.save();
  try {
    await Promise.all(idle.map(async (instance) => {
      await instance.start();
      if (hidden.includes(instance)) await publish(host, instance.record);
      await settled(instance, { window: FIRST_WINDOW, orListening: true, signal });
    }));
  } catch (error) {
    record.error = (error as Error).message;
    throw error;
  } finally {
    for (const instance of idle) instance.supervise();
    await deployment.save();
  }
}

/**
 * The deployment is locked by the caller. `fresh` ones are removed whole where they do not come up; a
 * replaced one keeps its old instances.
 */
export async function applySpec(
  deployment: Deployment,
  fresh: boolean,
  spec: DeploySpec,
  context: ApplyContext,
): Promise<ApplyAction> {
  const { host, onProgress, signal } = context;
  requirePermitted(spec, host.config.allowPrivileged);
  const warnings = bareWarnings(spec);
  refuseIfStrict(spec, warnings);
  checkTimes(spec);
  await checkBinds(host, spec);
  onProgress(`resolving ${spec.image}`);
  const [image] = await Promise.all([
    context.images.resolve(spec.image, { signal }),
    host.tools(),
    host.bridges.preflight(),
  ]);
  warnings.push(...imageWarnings(spec, image.config.config ?? {}));
  const hash = specHash(spec, image.descriptor.digest);
  const { record } = deployment;
  if (!fresh && record.hash === hash) {
    record.spec.origin = spec.origin;
    await ensureRunning(deployment, context.reserve, host, signal);
    return "unchanged";
  }
  const old = deployment.ready;
  const before = old.flatMap((instance) => instance.record.ports);
  const { choice, made } = await context.reserve(async (taken) => {
    const choice = await host.networks.choose(spec.networks, context.choices());
    const publishes = canPublish(choice);
    if (spec.ports.length > 0 && choice.kind === "bridges" && !publishes) {
      warnings.push("ports: nothing is published on an internal network");
      refuseIfStrict(spec, warnings);
    }
    const ports = publishes ? await choosePorts(spec.ports, { before, taken }) : [];
    await requireFree(ports, taken);
    const spare = await host.spares.take(choice);
    const instances = Array.from({ length: spec.replicas }, (_, replica) =>
      deployment.instance(
        spec,
        newRecord(spec, image, replica, {
          choice,
          ports: replica === 0 ? ports : [],
          ...(replica === 0 && spare),
        }),
      ));
    deployment.instances.push(...instances);
    return { choice, made: instances };
  });
  try {
    deployment.transient = "pulling";
    onProgress(`pulling ${image.name}`);
    const snapshotter = await host.snapshotter();
    // What was unpacked stays until the instances are built on it.
    using _use = snapshotter.use();
    const parent = await context.unpack(snapshotter, image, { signal });
    deployment.transient = "creating";
    onProgress(`starting ${spec.replicas} instance${spec.replicas === 1 ? "" : "s"}`);
    if (fresh) Object.assign(record, { spec, hash, image: image.name });
    await deployment.save();
    const reports = await allOrFirstError(
      made.map((instance) => instance.create({ parent, signal }, { publish: fresh, signal })),
    );
    for (const warning of reports.flat()) if (!warnings.includes(warning)) warnings.push(warning);
    refuseIfStrict(spec, warnings);
    if (made.some((instance) => instance.record.plan.health)) onProgress("waiting until healthy");
    if (fresh) {
      await allOrFirstError(
        made.map((one) => settled(one, { window: FIRST_WINDOW, orListening: true, signal })),
      );
    } else {
      const ports = made.flatMap((instance) => instance.record.ports);
      const config = image.config.config ?? {};
      const takesOver = await portsToTakeOver(old, { spec, ports, image: config });
      const limit = host.config.takeOverMs ?? TAKE_OVER_MS;
      await allOrFirstError(
        made.map((one) => settled(one, { window: REPLACE_WINDOW, takesOver, limit, signal })),
      );
      // The old rules win until they are withdrawn: there is no moment without an answer.
      await allOrFirstError(made.map(({ record }) => publish(host, record)));
    }
  } catch (error) {
    await discard(deployment, made);
    if (!fresh) {
      record.error = (error as Error).message;
      await deployment.save();
    }
    throw error;
  }
  for (const instance of made) instance.record.phase = "ready";
  for (const instance of old) instance.record.phase = "leaving";
  Object.assign(record, {
    spec,
    hash,
    warnings,
    image: image.name,
    imageDigest: image.descriptor.digest,
    stopped: false,
    updatedAt: new Date().toISOString(),
  });
  delete record.error;
  await deployment.save();
  for (const instance of made) instance.supervise();
  await deployment.moved();
  if (old.length > 0) {
    onProgress("removing the old instances");
    await retire(host, deployment, old);
  }
  host.spares.prepare(choice);
  return fresh ? "created" : "replaced";
}

/** Rules first, so that the new instances answer; then the containers, when they have answered too. */
export async function retire(host: Host, deployment: Deployment, old: Instance[]): Promise<void> {
  for (const instance of old) await withdraw(host, instance.record);
  await Promise.all(old.map(async (instance) => {
    await drained(instance);
    await instance.end();
  }));
  deployment.instances = deployment.instances.filter((instance) => !old.includes(instance));
  await deployment.save();
}

/** What did not come up goes; what cannot be removed is left for the next start to try again. */
async function discard(deployment: Deployment, made: Instance[]): Promise<void> {
  const results = await Promise.allSettled(made.map((instance) => instance.remove()));
  deployment.instances = deployment.instances.filter((instance) =>
    !made.some((other, index) => other === instance && results[index].status === "fulfilled")
  );
}

/** Waits for all of them, then throws the first error: nothing goes on behind a failure. */
async function allOrFirstError<T>(work: Promise<T>[]): Promise<T[]> {
  const results = await Promise.allSettled(work);
  return results.map((result) => {
    if (result.status === "rejected") throw result.reason;
    return result.value;
  });
}

/** A stop that never ends would hold every later change of the deployment. */
function checkTimes(spec: DeploySpec): void {
  const day = 24 * 3600 * 1000;
  if (spec.stopGracePeriod !== undefined && parseDuration(spec.stopGracePeriod) > day) {
    throw new SvcError("spec_invalid", "Cannot use stopGracePeriod: more than a day");
  }
}
