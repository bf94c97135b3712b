/**
 * All routes of the Docker API. Containers, networks and volumes have their families in folders of their own;
 * images and builds add theirs here.
 */
import { BUILD_ROUTES } from "./build/routes.ts";
import { BUILDKIT_ROUTES } from "./buildkit/routes.ts";
import { IMAGE_ROUTES } from "./images/routes.ts";
import { CONTAINER_ROUTES } from "./containers/routes.ts";
import { EVENT_ROUTES } from "./events/routes.ts";
import { NETWORK_ROUTES } from "./networks/routes.ts";
import { REFUSED_ROUTES } from "./refused.ts";
import type { ApiRoute } from "./route.ts";
import { SYSTEM_ROUTES } from "./system/routes.ts";
import { VOLUME_ROUTES } from "./volumes/routes.ts";

export const ROUTES: readonly ApiRoute[] = [
  ...SYSTEM_ROUTES,
  ...IMAGE_ROUTES,
  ...EVENT_ROUTES,
  ...CONTAINER_ROUTES,
  ...NETWORK_ROUTES,
  ...VOLUME_ROUTES,
  ...BUILD_ROUTES,
  ...BUILDKIT_ROUTES,
  // Last: a path that something serves is not refused.
  ...REFUSED_ROUTES,
];
