/** SPEC "Containerd backend". */
import { absentTable, off } from "../../../lib/config/absent.ts";

export const CONTAINERD = absentTable("Containerd backend", "the containerd backend", [
  ["SVC_CONTAINERD_INSECURE_REGISTRIES", "list", "Registries over plain HTTP."],
  ["SVC_CONTAINERD_REMOTE", "bool", "Remote companion.", off],
  ["SVC_CONTAINERD_LOG_MAX_BYTES", "bytes", "Log rotation size.", { default: 16 * 1024 ** 2 }],
]);
