/** Where engines differ from docker 28, and why. */
import type { Allowance } from "./suite.ts";

const REFUSED: Allowance = {
  key: "fails",
  cases: ["stop-large"],
  why: "refused at once; docker finds out when it stops",
};
const PIPE: Allowance = {
  key: "exec.fd.0",
  why: "input of a command is a pipe, also where nobody writes to it",
};

/** Of the engines whose containers svc makes itself. */
export const OF_HOST: readonly Allowance[] = [
  REFUSED,
  PIPE,
  {
    key: /^(again\.)?cgroup\.devices/,
    why: "docker permits the console's device, which no instance has",
  },
  {
    key: "fd.0",
    cases: ["stdin"],
    why: "input is a FIFO, which any number of attached sessions write to",
  },
  { key: /^(pid|mount\..*init|dev\.svc-init)$/, why: "the init has another place" },
  {
    key: /^host\./,
    cases: /^network-none/,
    why: "the own name resolves without a network too",
  },
  {
    key: /^(status\.Cap|call\.)/,
    cases: ["privileged-drop"],
    why: "what is dropped is dropped, of a privileged one too",
  },
  {
    key: "fails",
    cases: ["pid-unknown", "ipc-unknown"],
    why: "a value that svc does not know is told as a warning, and refused with `strict`",
  },
];

export const OF_CONTAINERD: readonly Allowance[] = [
  ...OF_HOST,
  {
    key: /^(again\.)?oom$/,
    why: "containerd's shim gives up one, and only a host's root takes it back",
  },
];

export const OF_DOCKER: readonly Allowance[] = [
  REFUSED,
  PIPE,
  {
    key: /^\/etc\/resolv\.conf/,
    cases: /^dns/,
    why: "deployments have a network of their own, on which docker's resolver asks these servers",
  },
  {
    key: "host.outside",
    cases: ["extra-hosts-gateway"],
    why: "docker's word for the host is its first bridge, not that of the network",
  },
  { key: "exec.env.SVC_EXEC", why: "it finds the processes of a command that is to end" },
  {
    key: /^(again\.)?mount\.\/(proc\/acpi|run|seed|sys\/firmware)$/,
    why: "the record's runtime is newer, and names other options of a tmpfs",
  },
  {
    key: "status.Groups",
    cases: /groups/,
    why: "the record's runtime is newer, and names a group once",
  },
  {
    key: "write./sys/fs/cgroup",
    cases: /^cap-drop-all/,
    why: "the record's runtime is newer, and mounts it for reading",
  },
];
