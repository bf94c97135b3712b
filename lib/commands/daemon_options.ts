/** Options of `svc daemon …`: data only. */
import type { AnyOption } from "../config/load.ts";

const section = "Options";

export const DAEMON_DOCKER_OPTIONS = [
  {
    key: "socket",
    kind: "string",
    flag: "socket",
    env: ["SVC_DOCKER_SOCK"],
    placeholder: "PATH",
    defaultText: "$XDG_RUNTIME_DIR/svc-docker.sock",
    help: "Unix socket to listen on. It is for this user alone.",
    section,
  },
] as const satisfies readonly AnyOption[];
