/** What the podman backend does with each field of a deployment spec. */
import type { FieldRules } from "../../../lib/deploy/fields.ts";
import { engineFields } from "../shared/engine_api/fields.ts";

export const PODMAN_FIELDS: FieldRules = {
  ...engineFields("podman"),
  groupAdd: {
    only: "for the main process; a command of svc exec --user has its user's groups alone",
    check: () => undefined,
  },
};
