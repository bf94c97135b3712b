/** The routes that signal, pause, update and list the processes of a deployment's instances. */
import { RESTART_POLICIES } from "../../api/deploy_spec.ts";
import { endpoint } from "../../api/endpoints.ts";
import type { InstanceUpdate } from "../../api/workload.ts";
import { parseBytes } from "../../base/bytes.ts";
import { SvcError } from "../../base/errors.ts";
import { signalNumber } from "../../base/signals.ts";
import type { ManagementDeps } from "../deps.ts";
import { json } from "../json.ts";
import { Query } from "../query.ts";
import type { Context, Route } from "../route.ts";
import { requireAbilityFor } from "./ability.ts";

/** The signal that the query names; KILL where it names none, as `docker kill` has it. */
function signalOf(query: Query): string {
  const text = query.text("signal") ?? "KILL";
  if (signalNumber(text) !== undefined) return text;
  throw new SvcError(
    "argument_invalid",
    `Cannot send signal ${JSON.stringify(text)}: there is no such signal`,
    { help: "name one, such as HUP, SIGHUP or 1" },
  );
}

const invalid = (what: string, help: string) =>
  new SvcError("argument_invalid", `Cannot update: ${what}`, { help });

/** What the query changes. */
function updateOf(query: Query): InstanceUpdate {
  const [cpus, memory, reserved] = ["cpus", "memory", "reservedMemory"].map((name) =>
    query.text(name)
  );
  const update = {
    cpuLimit: cpus === undefined ? undefined : Number(cpus),
    memoryLimit: memory === undefined ? undefined : parseBytes(memory),
    reservedMemory: reserved === undefined ? undefined : parseBytes(reserved),
    restart: query.choice("restart", RESTART_POLICIES),
    restartMaxAttempts: query.count("maxAttempts"),
  };
  const { cpuLimit = 1, restart, restartMaxAttempts } = update;
  if (!(cpuLimit >= 0.01) || cpuLimit === Infinity) {
    throw invalid(`${JSON.stringify(cpus)} is no number of processors`, "give cpus=0.5");
  }
  if (restartMaxAttempts !== undefined && restart !== "on-failure") {
    throw invalid("maxAttempts is for restart=on-failure", "give both or leave it out");
  }
  const given = Object.entries(update).filter(([, value]) => value !== undefined);
  if (given.length === 0) {
    throw invalid("the query says nothing of what is to be changed", "give memory=64Mi or others");
  }
  return Object.fromEntries(given);
}

export function instanceRoutes(deps: ManagementDeps): Route[] {
  const done = () => new Response(null, { status: 204 });

  async function signal({ url, signal, params: { name } }: Context): Promise<Response> {
    const query = new Query(url);
    const wanted = signalOf(query);
    const { ability } = await requireAbilityFor(deps, "signal", "signal", name);
    await ability(name, wanted, { instance: query.text("instance"), signal });
    return done();
  }

  const freezes = (act: "pause" | "unpause"): Route => ({
    ...endpoint(`POST /deployments/{name}/${act}`),
    action: "deploy",
    help: act === "pause"
      ? "Freezes all processes of a deployment's running instances, or of `instance`."
      : "Thaws frozen instances; those that are not frozen are left alone.",
    handler: async ({ url, signal, params: { name } }) => {
      const { ability } = await requireAbilityFor(deps, "pause", act, name);
      await ability[act](name, { instance: new Query(url).text("instance"), signal });
      return done();
    },
  });

  async function update({ url, signal, params: { name } }: Context): Promise<Response> {
    const query = new Query(url);
    const wanted = updateOf(query);
    const { ability } = await requireAbilityFor(deps, "update", "update", name);
    await ability(name, wanted, { instance: query.text("instance"), signal });
    return done();
  }

  async function top({ url, signal, params: { name } }: Context): Promise<Response> {
    const instance = new Query(url).text("instance");
    const { ability } = await requireAbilityFor(deps, "top", "list the processes of", name);
    return json(await ability(name, { instance, signal }));
  }

  return [
    {
      ...endpoint("POST /deployments/{name}/signal"),
      action: "deploy",
      help:
        "Sends `signal` (a name or a number; KILL where it is left out) to the main process of every running " +
        "instance, or of `instance`.",
      handler: signal,
    },
    {
      ...endpoint("POST /deployments/{name}/update"),
      action: "deploy",
      help:
        "Changes bounds (`cpus`; `memory` and `reservedMemory` in bytes or with a unit) and the restart policy of " +
        "every instance, or of `instance`, without making it anew. It holds until an apply replaces the instance; " +
        "the spec stays.",
      handler: update,
    },
    freezes("pause"),
    freezes("unpause"),
    {
      ...endpoint("GET /deployments/{name}/top"),
      // Command lines may hold secrets; whoever may exec can read them anyway.
      action: "exec",
      help: "The processes of every running instance, or of `instance`, as `ps` lists them.",
      handler: top,
    },
  ];
}
