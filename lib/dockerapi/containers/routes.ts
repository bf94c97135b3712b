/** The routes of containers. */
import type { DockerApi } from "../api.ts";
import { invalid } from "../errors.ts";
import { refusing } from "../refused.ts";
import type { Answer, Call } from "../request.ts";
import type { ApiRoute } from "../route.ts";
import { ARCHIVE_ROUTES } from "./archive.ts";
import { attach, logs, resize } from "./attach.ts";
import { create } from "./create.ts";
import { EXEC_ROUTES } from "./exec.ts";
import { stats, top } from "./figures.ts";
import { shownBy } from "./filters.ts";
import {
  freeze,
  kill,
  prune,
  remove,
  rename,
  restart,
  start,
  stop,
  update,
  wait,
} from "./power.ts";
import { isUp } from "./seen.ts";
import { detailsOf, rowOf } from "./show.ts";

async function list(call: Call, api: DockerApi): Promise<Answer> {
  const filters = call.filters();
  const all = await api.containers.all(call.signal);
  const every = call.flag("all") || filters.has("status") || filters.has("exited");
  const newest = (a: string, b: string) => Date.parse(b) - Date.parse(a);
  const limit = Number(call.query.get("limit") ?? 0);
  if (!Number.isInteger(limit)) throw invalid("invalid limit: expected a whole number");
  const sorted = shownBy(all, filters)
    .filter(({ instance, status }) =>
      every || limit > 0 || isUp(instance) || status.state === "pending"
    )
    .sort((a, b) => newest(a.record.created, b.record.created));
  const shown = limit > 0 ? sorted.slice(0, limit) : sorted;
  return { json: shown.map((seen) => rowOf(seen, api)) };
}

async function inspect(call: Call, api: DockerApi): Promise<Answer> {
  const seen = await api.containers.find(call.params.id, call.signal);
  const sizes = call.flag("size") ? { SizeRw: 0, SizeRootFs: 0 } : {};
  return { json: { ...detailsOf(seen, api), ...sizes } };
}

export const CONTAINER_ROUTES: readonly ApiRoute[] = [
  { method: "GET", path: "/containers/json", handler: list },
  { method: "POST", path: "/containers/create", handler: create },
  { method: "POST", path: "/containers/prune", handler: prune },
  { method: "GET", path: "/containers/{id}/json", handler: inspect },
  { method: "DELETE", path: "/containers/{id}", handler: remove },
  { method: "POST", path: "/containers/{id}/start", handler: start },
  { method: "POST", path: "/containers/{id}/stop", handler: stop },
  { method: "POST", path: "/containers/{id}/restart", handler: restart },
  { method: "POST", path: "/containers/{id}/kill", handler: kill },
  { method: "POST", path: "/containers/{id}/pause", handler: freeze("pause") },
  { method: "POST", path: "/containers/{id}/unpause", handler: freeze("unpause") },
  { method: "POST", path: "/containers/{id}/rename", handler: rename },
  { method: "POST", path: "/containers/{id}/update", handler: update },
  { method: "POST", path: "/containers/{id}/wait", handler: wait },
  { method: "POST", path: "/containers/{id}/resize", handler: resize },
  { method: "POST", path: "/containers/{id}/attach", handler: attach },
  { method: "GET", path: "/containers/{id}/logs", handler: logs },
  { method: "GET", path: "/containers/{id}/top", handler: top },
  { method: "GET", path: "/containers/{id}/stats", handler: stats },
  {
    method: "GET",
    path: "/containers/{id}/attach/ws",
    handler: refusing("attach by WebSocket", "docker attach does it by an upgrade"),
  },
  ...EXEC_ROUTES,
  ...ARCHIVE_ROUTES,
];
