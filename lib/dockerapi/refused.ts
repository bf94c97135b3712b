/** Parts of the Docker API that a svc server has nothing for: each is an error that names it. */
import { notFound, unsupported } from "./errors.ts";
import type { ApiRoute, Handler } from "./route.ts";

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

/** Of what svc cannot do: "search for images". */
export const refusing = (what: string, help: string): Handler => () =>
  Promise.reject(unsupported(`svc cannot ${what}`, help));

const absent = (what: string): Handler => () =>
  Promise.reject(unsupported(`svc has no ${what}`, ""));

/** `docker inspect` asks for a plugin when nothing else has the name, and goes on only where it is told so. */
const noPlugin: Handler = ({ params: { name } }) =>
  Promise.reject(notFound(`plugin ${JSON.stringify(name)} not found`));

export const REFUSED_ROUTES: readonly ApiRoute[] = [
  { method: "GET", path: "/plugins/{name*}/json", handler: noPlugin },
  ...Object.entries(PARTS).flatMap(([path, what]) =>
    METHODS.flatMap((method) => [
      { method, path, handler: absent(what) },
      { method, path: `${path}/{rest*}`, handler: absent(what) },
    ])
  ),
];
