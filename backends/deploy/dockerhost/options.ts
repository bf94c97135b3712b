/** SPEC "Deploy backend (common)". */
import { absentTable, off } from "../../../lib/config/absent.ts";

export const DOCKERHOST = absentTable("Docker backend", "the dockerhost backend", [
  ["SVC_DOCKER_REMOTE", "bool", "Companion for a daemon on another host.", off],
]);
