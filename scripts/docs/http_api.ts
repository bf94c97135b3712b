/** docs/reference/http-api.md, from the route tables the server dispatches on. */
import { openMemStore } from "../../backends/store/mem.ts";
import { silent } from "../../lib/base/log.ts";
import { createRegistry } from "../../lib/registry/registry.ts";
import { openAccess } from "../../lib/server/access.ts";
import { activityRoutes } from "../../lib/server/routes/activity.ts";
import { openApiRoute } from "../../lib/server/routes/openapi.ts";
import { Lifecycle } from "../../lib/server/lifecycle.ts";
import type { Route } from "../../lib/server/route.ts";
import { managementRoutes } from "../../lib/server/routes.ts";
import { exchangeRoutes, keyRoutes, registryTokenRoutes } from "../../lib/server/auth/routes.ts";
import { createContentStore } from "../../lib/store/content.ts";
import { cell, code, table } from "./markdown.ts";

/** The rows of the route tables; no handler is called. */
export function routes(): { management: Route[]; auth: Route[]; registry: Route[] } {
  const store = createContentStore(openMemStore(), { log: silent });
  const never = () => Promise.reject(new Error("the reference page calls no handler"));
  // Only the handlers use these arguments, and no handler is called.
  const nothing = {} as never;
  return {
    auth: [
      ...keyRoutes(nothing),
      ...exchangeRoutes(nothing),
      ...registryTokenRoutes(nothing),
    ],
    management: [
      openApiRoute(() => []),
      ...activityRoutes(nothing),
      ...managementRoutes({
        lifecycle: new Lifecycle(),
        access: openAccess,
        build: { version: "", dirty: false, form: "source", tags: [] },
        registryMode: "store",
        registryWritable: true,
        registryHost: () => "",
        isOwnHost: () => false,
        builder: never,
        deploy: { name: "", backend: never },
        sessions: nothing,
        tunnels: nothing,
        caretakers: nothing,
        ingress: nothing,
        storage: store.upkeep,
        limits: { buildConcurrency: 1 },
      }),
    ],
    registry: createRegistry({ reader: store, writer: store }),
  };
}

function row({ method, path, open, action, help, query }: Route): string[] {
  const names = Object.keys(query ?? {});
  const parameters = names.length > 0 ? ` Query: ${code(names.join(" "))}.` : "";
  // Help texts are markdown already.
  return [code(`${method} ${path}`), open ? "open" : action, cell(help) + parameters];
}

export function httpApiPage(): string {
  const head = ["method and path", "needs", "what"];
  const { management, auth, registry } = routes();
  return "# HTTP API\n\n" +
    "One listener serves the management API and the registry. *Needs* is the action that a policy has " +
    "to grant once authentication is configured, *any* that it has to grant something; *open* is never " +
    "asked for a credential. HEAD is " +
    "answered wherever GET is. A failure after a streamed 200 has begun is the stream's last event. " +
    "Errors are described in [errors.md](errors.md). [openapi.json](openapi.json) is the management API " +
    "for programs, which a server answers at `/.svc/v1/openapi.json` with the paths that it has: like " +
    "`/info`, to whoever may do anything at all.\n\n" +
    "## Management API\n\n" + table(head, management.map(row)) +
    "\n## Authentication\n\n" +
    "There where it is configured: keys with SSH keys, the exchange with JWTs, the registry's tokens " +
    "with anonymous pulls. [authentication.md](authentication.md) tells more.\n\n" +
    table(head, auth.map(row)) +
    "\n## Registry\n\n" +
    "The OCI Distribution Specification 1.1; `{name+}` is a repository's name and may have several " +
    "segments.\n\n" + table(head, registry.map(row));
}
