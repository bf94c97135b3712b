/** What `svc serve --help` prints. */
import { renderHelp } from "./help.ts";
import { SERVER_OPTIONS } from "./server_options.ts";

/** `columns`: width of the terminal, where there is one. */
export function serveHelp(columns = 100): string {
  return renderHelp({
    usage: "svc serve [OPTIONS]",
    summary: "Run the server: registry, builder and runtime in one process.",
    options: SERVER_OPTIONS,
    examples: [
      "SVC_DEPLOY_BACKEND=bare svc serve",
      "svc serve --addr 127.0.0.1:5000 --data-dir /srv/svc",
      "svc serve --rootless --data-dir ~/svc",
    ],
  }, Math.min(columns, 100));
}
