/** Routes that need no credential (DESIGN.md section 5). */
import { API_PREFIX } from "../../api/endpoints.ts";
import type { WellKnown } from "../../api/info.ts";
import type { ManagementDeps } from "../deps.ts";
import { json } from "../json.ts";
import type { Route } from "../route.ts";

const HEALTH = { "application/json": "Health" } as const;

export function healthRoutes({ lifecycle, access }: ManagementDeps): Route[] {
  return [
    {
      method: "GET",
      path: "/healthz",
      open: true,
      answers: { 200: HEALTH },
      help: "200 while the process lives.",
      handler: () => json({ status: "ok" }),
    },
    {
      method: "GET",
      path: "/readyz",
      open: true,
      answers: { 200: HEALTH, 503: HEALTH },
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
      answers: { 200: { "application/json": "WellKnown" } },
      help: "What a client needs to know before it has a credential.",
      handler: () => {
        const { methods, endpoints } = access;
        return json({ api: API_PREFIX, auth: [...methods], ...endpoints } satisfies WellKnown);
      },
    },
  ];
}
