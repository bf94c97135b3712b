/** SPEC "Incus backend". */
import { absentTable, off } from "../../../lib/config/absent.ts";

export const INCUS = absentTable("Incus backend", "the incus backend", [
  ["SVC_INCUS_SOCKET", "string", "Its socket.", { default: "/var/lib/incus/unix.socket" }],
  ["SVC_INCUS_PROJECT", "string", "Project of the instances.", { default: "default" }],
  ["SVC_INCUS_STORAGE_POOL", "string", "Pool of volumes.", { default: "default" }],
  ["SVC_INCUS_INSECURE_REGISTRIES", "string", "Registries over plain HTTP."],
  ["SVC_INCUS_REMOTE", "bool", "Companion instances.", off],
]);
