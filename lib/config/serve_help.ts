/** What `svc serve --help` prints. */
import { renderHelp } from "./help.ts";
import { serverTables } from "./server_options.ts";
import type { OptionTable } from "./table.ts";

/** `columns`: width of the terminal, where there is one. */
export function serveHelp(backends: readonly OptionTable[], columns = 100): string {
  return renderHelp({
    usage: "svc serve [OPTIONS]",
    summary: "Run the server: registry, builder and runtime in one process.",
    options: serverTables(backends).flatMap((table) => table.options),
    examples: [
      "SVC_DEPLOY_BACKEND=bare svc serve",
      "svc serve --addr 127.0.0.1:5000 --data-dir /srv/svc",
      "svc serve --rootless --data-dir ~/svc",
    ],
  }, Math.min(columns, 100));
}
