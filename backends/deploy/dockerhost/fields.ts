/** What the dockerhost backend does with each field of a deployment spec. */
import type { FieldRules } from "../../../lib/deploy/fields.ts";
import { engineFields } from "../shared/engine_api/fields.ts";

export const DOCKERHOST_FIELDS: FieldRules = engineFields("dockerhost");
