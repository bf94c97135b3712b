/** Ends, stop signals, restarts. */
import type { Case } from "./case.ts";

const EXITS: Case[] = [0, 1, 3, 42, 126, 127, 137, 143, 255].map((code) => ({
  name: `exit-${code}`,
  spec: { command: [`exit:${code}`] },
  then: "end",
}));

const signal = (name: string, stopSignal: string): Case => ({
  name: `stop-${name}`,
  spec: { stopSignal },
  then: "stop",
});

const STOPS: Case[] = [
  { name: "stop", then: "stop" },
  { name: "stop-image", image: { StopSignal: "SIGUSR1" }, then: "stop" },
  {
    name: "stop-over-image",
    image: { StopSignal: "SIGUSR1" },
    spec: { stopSignal: "SIGINT" },
    then: "stop",
  },
  signal("int", "SIGINT"),
  signal("short", "INT"),
  signal("lower", "sigint"),
  signal("number", "10"),
  signal("quit", "SIGQUIT"),
  signal("hup", "SIGHUP"),
  signal("winch", "SIGWINCH"),
  signal("kill", "SIGKILL"),
  signal("rtmin", "SIGRTMIN+3"),
  { name: "stop-unknown", spec: { stopSignal: "SIGNONSENSE" }, fails: true },
  { name: "stop-zero", spec: { stopSignal: "0" }, fails: true },
  {
    name: "stop-large",
    spec: { stopSignal: "99" },
    fails: true,
    deliberate: "docker finds out when it stops",
  },
  {
    name: "stop-deaf",
    spec: { entrypoint: ["/bin/sh", "-c", "/probe & exec sleep 1000"] },
    then: "stop",
  },
  { name: "stop-init", spec: { init: true }, then: "stop" },
  { name: "stop-tty", spec: { tty: true }, then: "stop" },
];

const RESTARTS: Case[] = [
  { name: "restart", then: "restart" },
  { name: "restart-hostname", spec: { hostname: "named" }, then: "restart" },
  { name: "restart-user", spec: { user: "user" }, then: "restart" },
  { name: "restart-tmpfs", spec: { tmpfs: ["/run"] }, then: "restart" },
  { name: "restart-memory", spec: { resources: { memoryLimit: 64 * 1024 ** 2 } }, then: "restart" },
  { name: "restart-image-volume", image: { Volumes: { "/seed": {} } }, then: "restart" },
];

const OTHER: Case[] = [
  { name: "label", spec: { labels: { a: "b" } } },
  { name: "image-expose", image: { ExposedPorts: { "80/tcp": {} } } },
  { name: "image-label", image: { Labels: { a: "b" } } },
  {
    name: "health",
    spec: { healthcheck: { test: ["CMD", "true"], interval: "1s" } },
  },
  { name: "health-none", spec: { healthcheck: { test: ["NONE"] } } },
  {
    name: "everything",
    image: {
      Env: ["PATH=/bin", "A=image"],
      User: "user",
      WorkingDir: "/etc",
      Cmd: ["of", "image"],
    },
    spec: {
      env: { A: "spec" },
      command: ["own"],
      workingDir: "/srv",
      hostname: "named",
      readOnly: true,
      tmpfs: ["/tmp"],
      capDrop: ["ALL"],
      groupAdd: ["disk"],
      securityOpt: ["no-new-privileges"],
      ulimits: [{ name: "nofile", soft: 200, hard: 200 }],
      resources: { memoryLimit: 64 * 1024 ** 2, cpuLimit: 0.5 },
      volumes: [{ name: "v", target: "/vol" }],
      extraHosts: { one: "10.1.2.3" },
    },
    exec: {},
    then: "stop",
  },
];

export const LIFE_CASES: Case[] = [...EXITS, ...STOPS, ...RESTARTS, ...OTHER];
