/**
 * All routes of the Docker API. Containers, networks and volumes have their families in folders of their own;
 * images and builds add theirs here.
 */
import { REFUSED_ROUTES } from "./refused.ts";
import type { ApiRoute } from "./route.ts";
import { SYSTEM_ROUTES } from "./system/routes.ts";

export const ROUTES: readonly ApiRoute[] = [
  ...SYSTEM_ROUTES,
  // Last: a path that something serves is not refused.
  ...REFUSED_ROUTES,
];
