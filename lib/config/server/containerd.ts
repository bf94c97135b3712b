/** SPEC "Containerd backend": the address of the host's containerd, and svc's names in it. */
import { optionTable } from "../table.ts";

const section = "Containerd";

export const CONTAINERD = optionTable([
  {
    key: "containerdAddress",
    kind: "string",
    env: ["SVC_CONTAINERD_ADDRESS", "CONTAINERD_ADDRESS"],
    default: "/run/containerd/containerd.sock",
    section,
    help: "Path of containerd's socket.",
    check: (value) => value.replace(/^unix:\/\//, ""),
  },
  {
    key: "containerdNamespace",
    kind: "string",
    env: ["SVC_CONTAINERD_NAMESPACE"],
    default: "svc",
    section,
    help: "containerd namespace of svc's images, snapshots and containers.",
  },
  {
    key: "containerdSnapshotter",
    kind: "string",
    env: ["SVC_CONTAINERD_SNAPSHOTTER"],
    default: "overlayfs",
    section,
    help:
      "containerd snapshotter of root file systems: overlayfs, or native where containerd's own " +
      "directory is on an overlay.",
  },
]);
