/** What may be asked without a credential (DESIGN.md section 5). */
import type { WellKnown } from "../../api/info.ts";
import type { ManagementDeps } from "../deps.ts";
import { json } from "../json.ts";
import type { Route } from "../route.ts";

export const API_PREFIX = "/.svc/v1";

export function healthRoutes({ lifecycle, access }: ManagementDeps): Route[] {
  return [
    {
      method: "GET",
      path: "/healthz",
      open: true,
      help: "200 while the process lives.",
      handler: () => json({ status: "ok" }),
    },
    {
      method: "GET",
      path: "/readyz",
      open: true,
      help: "200 while the server serves; 503 until then, and again while it shuts down.",
      handler: () => {
        const { phase } = lifecycle;
        return json({ status: phase }, { status: phase === "serving" ? 200 : 503 });
      },
    },
    {
      method: "GET",
      path: "/.well-known/svc",
      open: true,
      help: "What a client needs to know before it has a credential.",
      handler: () => {
        const { methods, endpoints } = access;
        return json({ api: API_PREFIX, auth: [...methods], ...endpoints } satisfies WellKnown);
      },
    },
  ];
}
