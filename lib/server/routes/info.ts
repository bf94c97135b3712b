/** `GET /.svc/v1/info`. */
import { asSvcError } from "../../base/errors.ts";
import { endpoint } from "../../api/endpoints.ts";
import type { ServerInfo } from "../../api/info.ts";
import type { ManagementDeps } from "../deps.ts";
import { json } from "../json.ts";
import type { Route } from "../route.ts";

export function infoRoutes(deps: ManagementDeps): Route[] {
  /** Opens the backend: only that tells whether its prerequisites are met. */
  async function deployInfo(): Promise<ServerInfo["deploy"]> {
    try {
      const backend = await deps.deploy.backend();
      await backend.ready?.();
      const { name, caps } = backend;
      const abilities = Object.entries(caps).filter(([, value]) => value !== undefined);
      return { backend: name, available: true, caps: abilities.map(([ability]) => ability).sort() };
    } catch (error) {
      const { message, help } = asSvcError(error);
      const reason = `${message}; ${help}`;
      return { backend: deps.deploy.name, available: false, reason, caps: [] };
    }
  }
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
          deploy: await deployInfo(),
          ingress: deps.ingress?.info() ?? { enabled: false },
          tunnels: { backends: [...deps.tunnels?.usable ?? []] },
          limits: deps.limits,
          identity: { subject: identity.subject, scopes: [...identity.scopes] },
        } satisfies ServerInfo,
      );
    },
  }];
}
