/**
 * The runtime for containers on this host, for build steps and for backends without a daemon. SPEC lists these
 * options under "Bare backend"; their names stay.
 */
import { oneOf } from "../checks.ts";
import { optionTable } from "../table.ts";

const section = "OCI runtime";

export const RUNTIME = optionTable([
  {
    key: "runtime",
    kind: "string",
    env: ["SVC_RUNTIME", "SVC_BARE_RUNTIME"],
    agree: true,
    default: "runc",
    section,
    help: "OCI runtime that is driven directly: runc, crun, youki, runsc, or the path of one. " +
      "Validated at start.",
  },
  {
    key: "snapshotter",
    kind: "string",
    env: ["SVC_SNAPSHOTTER", "SVC_BARE_SNAPSHOTTER"],
    agree: true,
    defaultText: "overlay, with native as the fallback",
    section,
    help: "How root file systems are made: overlay, or native where overlay on overlay is refused.",
    check: (value, source) =>
      oneOf(["overlay", "native"])(value === "overlayfs" ? "overlay" : value, source),
  },
  {
    key: "snapshotterTrace",
    kind: "bool",
    env: ["SVC_SNAPSHOTTER_TRACE"],
    default: false,
    section,
    help: "Log each call of the snapshotter, this server's or containerd's, with its time.",
  },
]);
