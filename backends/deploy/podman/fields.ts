/** What the podman backend does with each field of a deployment spec. */
import type { FieldRules } from "../../../lib/deploy/fields.ts";
import { engineFields } from "../shared/engine_api/fields.ts";

const ENDED = "without a terminal podman ends the input with the first who was attached and leaves";

export const PODMAN_FIELDS: FieldRules = {
  ...engineFields("podman"),
  groupAdd: {
    only: "for the main process; a command of svc exec --user has its user's groups alone",
    check: () => undefined,
  },
  stdinOpen: {
    only: `with tty; ${ENDED}`,
    check: (open, { tty }) => open && !tty ? ENDED : undefined,
  },
};
