/** Options of `svc daemon …`: data only. */
import type { AnyOption } from "../config/load.ts";
import { optionRows } from "../config/option_rows.ts";

const { text } = optionRows("Options");

export const DAEMON_DOCKER_OPTIONS = [
  {
    ...text("socket", "socket", "PATH", "Unix socket to listen on. It is for this user alone."),
    env: ["SVC_DOCKER_SOCK"],
    defaultText: "$XDG_RUNTIME_DIR/svc-docker.sock",
  },
] as const satisfies readonly AnyOption[];
