/** The routes that signal, pause and list the processes of a deployment's instances. */
import { endpoint } from "../../api/endpoints.ts";
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
