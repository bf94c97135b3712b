/** What the containerd backend does with each field of a deployment spec. */
import { hostEngineFields } from "../shared/host_engine_fields.ts";

export const CONTAINERD_FIELDS = hostEngineFields("containerd");
