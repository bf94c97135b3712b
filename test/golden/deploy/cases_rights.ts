/** Capabilities, the system call filter, privileged, namespaces, devices. */
import type { Case } from "./case.ts";

const CAPABILITIES: Case[] = [
  ...["NET_ADMIN", "SYS_ADMIN", "SYS_PTRACE", "SYS_NICE", "SYSLOG", "SYS_CHROOT", "SYS_TIME", "ALL"]
    .map((name): Case => ({
      name: `cap-add-${name.toLowerCase().replace("_", "-")}`,
      spec: { capAdd: [name] },
    })),
  ...["ALL", "CHOWN", "MKNOD", "SETUID", "NET_RAW", "KILL", "SYS_CHROOT", "NET_BIND_SERVICE"]
    .map((name): Case => ({
      name: `cap-drop-${name.toLowerCase().replaceAll("_", "-")}`,
      spec: { capDrop: [name] },
    })),
  { name: "cap-prefix", spec: { capAdd: ["CAP_NET_ADMIN"], capDrop: ["CAP_CHOWN"] } },
  { name: "cap-lower", spec: { capAdd: ["net_admin"] } },
  { name: "cap-drop-all-add", spec: { capDrop: ["ALL"], capAdd: ["CHOWN", "NET_ADMIN"] } },
  { name: "cap-add-all-drop", spec: { capAdd: ["ALL"], capDrop: ["SYS_ADMIN", "NET_RAW"] } },
  { name: "cap-both", spec: { capAdd: ["CHOWN"], capDrop: ["CHOWN"] } },
  { name: "cap-add-default", spec: { capAdd: ["CHOWN"] } },
  { name: "cap-user", spec: { user: "user", capAdd: ["NET_ADMIN"] } },
  { name: "cap-unknown", spec: { capAdd: ["NO_SUCH"] }, fails: true },
  { name: "cap-drop-unknown", spec: { capDrop: ["NO_SUCH"] }, fails: true },
];

const SECURITY: Case[] = [
  { name: "no-new-privileges", spec: { securityOpt: ["no-new-privileges"] } },
  { name: "no-new-privileges-true", spec: { securityOpt: ["no-new-privileges:true"] } },
  { name: "no-new-privileges-false", spec: { securityOpt: ["no-new-privileges:false"] } },
  { name: "no-new-privileges-equals", spec: { securityOpt: ["no-new-privileges=true"] } },
  { name: "no-new-privileges-user", spec: { user: "user", securityOpt: ["no-new-privileges"] } },
  { name: "seccomp-unconfined", spec: { securityOpt: ["seccomp=unconfined"] } },
  {
    name: "seccomp-unconfined-admin",
    spec: { securityOpt: ["seccomp=unconfined"], capAdd: ["SYS_ADMIN"] },
  },
  { name: "privileged", spec: { privileged: true } },
  { name: "privileged-user", spec: { privileged: true, user: "user" } },
  { name: "privileged-drop", spec: { privileged: true, capDrop: ["SYS_ADMIN"] } },
  { name: "privileged-read-only", spec: { privileged: true, readOnly: true } },
  { name: "privileged-seccomp", spec: { privileged: true, securityOpt: ["seccomp=unconfined"] } },
];

const NAMESPACES: Case[] = [
  { name: "pid-host", spec: { pidMode: "host" } },
  { name: "ipc-host", spec: { ipcMode: "host" } },
  { name: "ipc-private", spec: { ipcMode: "private" } },
  { name: "network-none", spec: { networks: [{ name: "none" }] } },
  { name: "network-none-hostname", spec: { hostname: "named", networks: [{ name: "none" }] } },
  {
    name: "network-none-hosts",
    spec: { extraHosts: { one: "10.1.2.3" }, networks: [{ name: "none" }] },
  },
  { name: "pid-unknown", spec: { pidMode: "odd" }, fails: true },
  { name: "ipc-unknown", spec: { ipcMode: "odd" }, fails: true },
];

const DEVICES: Case[] = [
  { name: "device", spec: { devices: ["/dev/full:/dev/own"] } },
  { name: "device-read", spec: { devices: ["/dev/zero:/dev/own:r"] } },
  { name: "device-same", spec: { devices: ["/dev/fuse"] } },
  { name: "device-below", spec: { devices: ["/dev/null:/dev/folder/own"] } },
  { name: "device-user", spec: { user: "user", devices: ["/dev/full:/dev/own:rw"] } },
  { name: "device-missing", spec: { devices: ["/dev/nothing-here"] }, fails: true },
  { name: "device-no-device", spec: { devices: ["/etc/passwd:/dev/own"] }, fails: true },
];

const SYSCTLS: Case[] = [
  { name: "sysctl-net", spec: { sysctls: { "net.core.somaxconn": "512" } } },
  { name: "sysctl-forward", spec: { sysctls: { "net.ipv4.ip_forward": "0" } } },
  { name: "sysctl-ports", spec: { sysctls: { "net.ipv4.ip_unprivileged_port_start": "1024" } } },
  { name: "sysctl-ping", spec: { sysctls: { "net.ipv4.ping_group_range": "1 0" } } },
  { name: "sysctl-ipc", spec: { sysctls: { "kernel.msgmax": "9000", "kernel.shmmax": "100000" } } },
  { name: "sysctl-sem", spec: { sysctls: { "kernel.sem": "1 2 3 4" } } },
  { name: "sysctl-mqueue", spec: { sysctls: { "fs.mqueue.msg_max": "20" } } },
  { name: "sysctl-host", spec: { sysctls: { "vm.swappiness": "10" } }, fails: true },
  { name: "sysctl-kernel", spec: { sysctls: { "kernel.panic": "1" } }, fails: true },
  { name: "sysctl-unknown", spec: { sysctls: { "net.nothing": "1" } }, fails: true },
];

export const RIGHT_CASES: Case[] = [
  ...CAPABILITIES,
  ...SECURITY,
  ...NAMESPACES,
  ...DEVICES,
  ...SYSCTLS,
];
