/** `GET /.svc/v1/info`. */
import { endpoint } from "../../api/endpoints.ts";
import type { ServerInfo } from "../../api/info.ts";
import { deployFacts } from "../deploy_facts.ts";
import type { ManagementDeps } from "../deps.ts";
import { json } from "../json.ts";
import type { Route } from "../route.ts";

export function infoRoutes(deps: ManagementDeps): Route[] {
  return [{
    ...endpoint("GET /info"),
    action: "any",
    help:
      "Version, registry host for deploy targets, backend and its abilities, limits, the caller.",
    handler: async ({ identity }) => {
      const { version, commit, tags } = deps.build;
      return json(
        {
          version,
          commit,
          buildTags: [...tags],
          registry: deps.registryHost(),
          registryMode: deps.registryMode,
          registryWritable: deps.registryWritable,
          deploy: (await deployFacts(deps.deploy)).info,
          build: await deps.delegation?.plan() ?? { at: "here" },
          ingress: deps.ingress?.info() ?? { enabled: false },
          tunnels: { backends: [...deps.tunnels?.usable ?? []] },
          limits: deps.limits,
          identity: { subject: identity.subject, scopes: [...identity.scopes] },
        } satisfies ServerInfo,
      );
    },
  }];
}
