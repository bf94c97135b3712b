/** What every answer says of who answers. */
import { buildInfo } from "../base/build_info.ts";
import { MAX_VERSION } from "./versions.ts";

/**
 * `Server` names svc: a server's own dockerhost backend refuses an engine that is svc itself
 * (lib/docker/own_api.ts), which would lead in a circle.
 */
export const serverHeaders = (): Record<string, string> => ({
  "api-version": MAX_VERSION,
  "ostype": "linux",
  "docker-experimental": "false",
  "server": `svc/${buildInfo().version} (linux)`,
});
