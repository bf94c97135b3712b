/** Parts of the Docker API that a svc server has nothing for: each is an error that names it. */
import { unsupported } from "./errors.ts";
import type { ApiRoute } from "./route.ts";

const METHODS = ["GET", "POST", "DELETE", "PUT"] as const;

/** What it is, by the paths that begin with it. */
const PARTS: Record<string, string> = {
  "/swarm": "swarm mode",
  "/nodes": "swarm mode",
  "/services": "services of a swarm",
  "/tasks": "swarm mode",
  "/secrets": "secrets of a swarm",
  "/configs": "configs of a swarm",
  "/plugins": "plugins",
};

const refuse = (what: string) => () => Promise.reject(unsupported(`svc has no ${what}`, ""));

export const REFUSED_ROUTES: readonly ApiRoute[] = Object.entries(PARTS).flatMap(([path, what]) =>
  METHODS.flatMap((method) => [
    { method, path, handler: refuse(what) },
    { method, path: `${path}/{rest*}`, handler: refuse(what) },
  ])
);
