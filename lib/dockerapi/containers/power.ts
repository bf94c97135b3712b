/** What changes a container: start, stop, restart, kill, pause, rename, update, remove, prune, wait. */
import { SvcError } from "../../base/errors.ts";
import { sleep } from "../../base/sleep.ts";
import { powerDeployment } from "../../client/deployments.ts";
import { freezeDeployment, signalDeployment, updateDeployment } from "../../client/workloads.ts";
import type { DockerApi } from "../api.ts";
import { conflict, invalid, isCode } from "../errors.ts";
import { filtered, PRUNE_TESTS } from "../filters.ts";
import { checkUpdate } from "./honoured.ts";
import type { WaitCondition } from "./life.ts";
import { checkName } from "./names.ts";
import { isUp, type Seen, stateOf } from "./seen.ts";
import { changeable } from "./spec.ts";
import type { Answer, Call } from "../request.ts";

const DONE: Answer = { status: 204 };

const find = (call: Call, api: DockerApi) => api.containers.find(call.params.id, call.signal);

/** The server starts and stops deployments as a whole. */
function requireWhole({ record, status }: Seen, what: string): void {
  if (record.instance === undefined || status.instances.length === 1) return;
  throw conflict(
    `Cannot ${what} ${record.name}: it is one of ${status.instances.length} instances of ` +
      `${status.name}, which are one deployment: svc ${what} ${status.name}`,
  );
}

/** A process that ends at once was started all the same. */
const endedAtOnce = (error: unknown) =>
  isCode(error, "deploy_failed") && error.detail?.instance !== undefined;

export async function start(call: Call, api: DockerApi): Promise<Answer> {
  const seen = await find(call, api);
  const { record } = seen;
  if (isUp(seen.instance)) return { status: 304 };
  requireWhole(seen, "start");
  await api.containers.ports.open(record);
  try {
    await powerDeployment(api.client(), record.deployment, "start");
  } catch (error) {
    if (!endedAtOnce(error)) {
      await api.containers.ports.close(record.id);
      // Clients wait until it is removed.
      if (record.hostConfig.AutoRemove) await api.containers.remove(seen, { volumes: true });
      throw notStarted(error);
    }
  }
  if (!record.started) {
    // Nobody waits for it: a record without it says too little of what the server knows.
    api.containers.save(Object.assign(record, { started: true }))
      .catch((error) => api.warn((error as Error).message));
  }
  return DONE;
}

/** Docker's clients tell by these words whether a program was missing (127) or could not be run (126). */
function notStarted(error: unknown): unknown {
  if (!(error instanceof SvcError)) return error;
  const { message } = error;
  const missing = /executable file not found|no such file or directory/i.test(message);
  const denied = /permission denied|is a directory/i.test(message);
  if (!missing && !denied) return error;
  return invalid(`failed to create task for container: ${message}`, error);
}

/** Seconds of the parameter `t`; -1: as long as it takes. */
function secondsOf(call: Call): number | undefined {
  const text = call.query.get("t");
  if (text === null || text === "") return undefined;
  const seconds = Number(text);
  if (Number.isFinite(seconds)) return seconds;
  throw invalid(`invalid value for t: ${text}`);
}

const GRACE_SECONDS = 10;

/** Stops and kills after that time, which may be longer than the spec's own. */
async function stopWithin(
  api: DockerApi,
  { record }: Seen,
  seconds: number | undefined,
): Promise<void> {
  const client = api.client();
  const { deployment, given, config } = record;
  const own = given.StopTimeout ?? GRACE_SECONDS;
  const send = (signal: string) =>
    signalDeployment(client, deployment, signal).catch(() => {/* it has ended */});
  let timer: ReturnType<typeof setTimeout> | undefined;
  if (seconds !== undefined && (seconds < 0 || seconds > own)) {
    const over = new AbortController();
    const seen = await api.containers.find(record.id);
    const ended = api.containers.life.exit(seen, "next-exit", over.signal).catch(() => {});
    await send(given.StopSignal || config.StopSignal || "SIGTERM");
    const late = seconds < 0 ? ended : sleep((seconds - own) * 1000, over.signal).catch(() => {});
    await Promise.race([ended, late]);
    over.abort();
  } else if (seconds !== undefined && seconds !== own) {
    timer = setTimeout(() => void send("KILL"), seconds * 1000);
  }
  await powerDeployment(client, deployment, "stop").finally(() => clearTimeout(timer));
}

export async function stop(call: Call, api: DockerApi): Promise<Answer> {
  const seen = await find(call, api);
  if (!isUp(seen.instance) && seen.status.state !== "pending") return { status: 304 };
  requireWhole(seen, "stop");
  await stopWithin(api, seen, secondsOf(call));
  return DONE;
}

export async function restart(call: Call, api: DockerApi): Promise<Answer> {
  const seen = await find(call, api);
  requireWhole(seen, "restart");
  const { record } = seen;
  const client = api.client();
  if (isUp(seen.instance)) {
    await stopWithin(api, seen, secondsOf(call));
  }
  await api.containers.ports.open(record);
  await powerDeployment(client, record.deployment, "start").catch((error) => {
    if (!endedAtOnce(error)) throw error;
  });
  api.containers.life.tell(record, "restart");
  return DONE;
}

export async function kill(call: Call, api: DockerApi): Promise<Answer> {
  const seen = await find(call, api);
  const { record, instance } = seen;
  const signal = call.query.get("signal") || "KILL";
  if (!isUp(instance)) throw conflict(`container ${record.id} is not running`);
  const client = api.client();
  const kills = /^(SIG)?KILL$|^9$/.test(signal);
  if (kills && seen.status.instances.length === 1) {
    // Stopped, so that no restart policy starts it again; killed, so that nothing is waited for.
    const stopping = powerDeployment(client, record.deployment, "stop");
    stopping.catch(() => {/* awaited below */});
    await signalDeployment(client, record.deployment, "KILL").catch(() => {/* it has ended */});
    await stopping;
  } else await signalDeployment(client, record.deployment, signal, record.instance);
  api.containers.life.tell(record, "kill", { signal });
  return DONE;
}

export function freeze(act: "pause" | "unpause") {
  return async (call: Call, api: DockerApi): Promise<Answer> => {
    const seen = await find(call, api);
    const { record } = seen;
    const state = stateOf(seen);
    if (act === "pause" && state === "paused") {
      throw conflict(`Container ${record.id} is already paused`);
    }
    if (state !== (act === "pause" ? "running" : "paused")) {
      throw conflict(`Container ${record.id} is not ${act === "pause" ? "running" : "paused"}`);
    }
    await freezeDeployment(api.client(), record.deployment, act, record.instance);
    api.containers.life.tell(record, act);
    return DONE;
  };
}

export async function rename(call: Call, api: DockerApi): Promise<Answer> {
  const { record } = await find(call, api);
  const name = checkName(call.query.get("name") ?? "");
  if (record.instance !== undefined) {
    throw conflict(`Cannot rename ${record.name}: svc's own clients made it`);
  }
  if (name === record.name) {
    throw invalid("Renaming a container with the same name as its current name");
  }
  const other = (await api.containers.all(call.signal)).find((seen) => seen.record.name === name);
  if (other) {
    throw conflict(
      `Conflict. The container name "/${name}" is already in use by container "${other.record.id}".`,
    );
  }
  const old = record.name;
  await api.containers.save(Object.assign(record, { name }));
  api.containers.life.tell(record, "rename", { oldName: `/${old}` });
  return DONE;
}

export async function update(call: Call, api: DockerApi): Promise<Answer> {
  const { changes, warnings } = checkUpdate(await call.json("ContainerUpdate"));
  const { record } = await find(call, api);
  if (Object.keys(changes).length > 0) {
    const hostConfig = { ...record.hostConfig, ...changes };
    // A limit in one form replaces that in the other.
    if (changes.NanoCpus) hostConfig.CpuQuota = hostConfig.CpuPeriod = 0;
    else if (changes.CpuQuota) hostConfig.NanoCpus = 0;
    const { resources, ...restarts } = changeable(hostConfig);
    const update = { ...resources, ...changes.RestartPolicy && restarts };
    await updateDeployment(api.client(), record.deployment, update, record.instance);
    await api.containers.save(Object.assign(record, { hostConfig }));
    api.containers.life.tell(record, "update");
  }
  return { json: { Warnings: warnings } };
}

export async function remove(call: Call, api: DockerApi): Promise<Answer> {
  if (call.flag("link")) throw invalid("svc has no links");
  const seen = await find(call, api);
  const { record } = seen;
  requireWhole(seen, "rm");
  if (isUp(seen.instance) && !call.flag("force")) {
    throw conflict(
      `cannot remove container "/${record.name}": container is running: stop the container before ` +
        "removing or force remove",
    );
  }
  await api.containers.remove(seen, { volumes: call.flag("v") });
  return DONE;
}

export async function prune(call: Call, api: DockerApi): Promise<Answer> {
  const filters = call.filters();
  const all = await api.containers.all(call.signal);
  const dated = all.map((seen) => {
    const { created, config: { Labels: labels } } = seen.record;
    return { seen, created, labels };
  });
  const chosen = filtered(dated, filters, PRUNE_TESTS).map(({ seen }) => seen).filter((seen) =>
    // What svc's own clients made is theirs.
    seen.record.instance === undefined && ["created", "exited"].includes(stateOf(seen))
  );
  for (const seen of chosen) await api.containers.remove(seen, { volumes: false });
  return {
    json: { ContainersDeleted: chosen.map(({ record }) => record.id), SpaceReclaimed: 0 },
  };
}

const CONDITIONS = ["not-running", "next-exit", "removed"];

export async function wait(call: Call, api: DockerApi): Promise<Answer> {
  const condition = call.query.get("condition") || "not-running";
  if (!CONDITIONS.includes(condition)) {
    throw invalid(`invalid condition: "${condition}"`);
  }
  const seen = await find(call, api);
  const code = api.containers.life.exit(seen, condition as WaitCondition, call.signal);
  code.catch(() => {/* told below */});
  // Clients start the container only when they have the answer's head.
  return {
    headers: { "content-type": "application/json" },
    stream: (async function* () {
      yield `${JSON.stringify({ StatusCode: await code })}\n`;
    })(),
  };
}
