/** What every answer says of who answers. */
import { buildInfo } from "../base/build_info.ts";
import { MAX_VERSION } from "./versions.ts";

/** `Server` names svc, as the components of `/version` do. */
export const serverHeaders = (): Record<string, string> => ({
  "api-version": MAX_VERSION,
  "ostype": "linux",
  "docker-experimental": "false",
  "server": `svc/${buildInfo().version} (linux)`,
});
