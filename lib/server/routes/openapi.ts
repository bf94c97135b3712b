/** `GET /.svc/v1/openapi.json`: the routes of this server, described (OpenAPI 3.1). */
import { endpoint } from "../../api/endpoints.ts";
import { json } from "../json.ts";
import type { Route } from "../route.ts";

/** The used part of `docs/reference/openapi.json`, which `scripts/docs.ts` makes. */
interface Document {
  paths: Record<string, Record<string, unknown>>;
}

/** `routes`: all routes of this server, which depend on its configuration. */
export function openApiRoute(routes: () => readonly Route[]): Route {
  return {
    ...endpoint("GET /openapi.json"),
    action: "any",
    help:
      "Description of this API (OpenAPI 3.1): the paths that this server has, what they take and answer.",
    handler: async () => {
      const text = await import("../../../docs/reference/openapi.json", { with: { type: "text" } });
      const document: Document = JSON.parse(text.default);
      const rows = new Set(routes().map(({ method, path }) => `${method.toLowerCase()} ${path}`));
      const paths = Object.entries(document.paths).flatMap(([path, methods]) => {
        const served = Object.entries(methods).filter(([method]) => rows.has(`${method} ${path}`));
        return served.length > 0 ? [[path, Object.fromEntries(served)]] : [];
      });
      return json({ ...document, paths: Object.fromEntries(paths) });
    },
  };
}
