/** SPEC "Deploy backend (common)". */
import { absentTable, off } from "../../../lib/config/absent.ts";

export const PODMAN = absentTable("Podman backend", "the podman backend", [
  ["SVC_PODMAN_SOCKET", "string", "Podman API endpoint."],
  ["SVC_PODMAN_SERVICE", "bool", "Run a podman API service.", off],
  ["SVC_PODMAN_REMOTE", "bool", "Companion for podman.", off],
]);
