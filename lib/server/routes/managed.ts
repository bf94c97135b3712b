/** The routes of volumes and networks that svc made for deployments. */
import { endpoint } from "../../api/endpoints.ts";
import { SvcError } from "../../base/errors.ts";
import type { ManagementDeps } from "../deps.ts";
import { json } from "../json.ts";
import type { Context, Route } from "../route.ts";
import { requireAbility } from "./ability.ts";

function routesOf(deps: ManagementDeps, kind: "volumes" | "networks"): Route[] {
  const one = kind === "volumes" ? "volume" : "network";
  const unknown = (attempt: string, name: string) =>
    new SvcError("not_found", `Cannot ${attempt} ${one} ${name}: svc made no such ${one}`, {
      help: `\`svc ${one} ls\` lists the ${kind}`,
    });

  async function list({ signal }: Context): Promise<Response> {
    const { ability } = await requireAbility(deps, kind, `list ${kind}`);
    const found: { name: string }[] = await ability.list({ signal });
    return json(found.sort((a, b) => a.name < b.name ? -1 : 1));
  }

  async function inspect({ signal, params: { name } }: Context): Promise<Response> {
    const { ability } = await requireAbility(deps, kind, `show ${one} ${name}`);
    const found = await ability.inspect(name, { signal });
    if (!found) throw unknown("show", name);
    return json(found);
  }

  async function remove({ params: { name } }: Context): Promise<Response> {
    const { ability } = await requireAbility(deps, kind, `remove ${one} ${name}`);
    // Not tied to the client's connection: a removal that has begun should finish.
    if (!await ability.remove(name)) throw unknown("remove", name);
    return new Response(null, { status: 204 });
  }

  return [
    {
      ...endpoint(`GET /${kind}`),
      action: "read",
      help: `The ${kind} that svc made for deployments, by name.`,
      handler: list,
    },
    { ...endpoint(`GET /${kind}/{name}`), action: "read", help: `One ${one}.`, handler: inspect },
    {
      ...endpoint(`DELETE /${kind}/{name}`),
      action: "deploy",
      help: `Removes a ${one}${
        kind === "volumes" ? " with what it holds" : ""
      }; one that a deployment uses is left alone (409).`,
      handler: remove,
    },
  ];
}

export const managedRoutes = (deps: ManagementDeps): Route[] => [
  ...routesOf(deps, "volumes"),
  ...routesOf(deps, "networks"),
];
