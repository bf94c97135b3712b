/** What the bare backend does with each field of a deployment spec. */
import { hostEngineFields } from "../shared/host_engine_fields.ts";

export const BARE_FIELDS = hostEngineFields("bare");
