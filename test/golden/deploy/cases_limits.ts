/** Memory, processors, ulimits, shared memory. */
import type { DeploySpec } from "../../../lib/api/deploy_spec.ts";
import type { Case } from "./case.ts";

const MiB = 1024 ** 2;

const resources = (
  name: string,
  values: DeploySpec["resources"],
  rest: Partial<Case> = {},
): Case => ({
  name,
  ...rest,
  spec: { resources: values },
});

const RESOURCES: Case[] = [
  resources("memory", { memoryLimit: 64 * MiB }),
  resources("memory-reserved", { reservedMemory: 32 * MiB }),
  resources("memory-both", { memoryLimit: 64 * MiB, reservedMemory: 32 * MiB }),
  resources("memory-odd", { memoryLimit: 64 * MiB + 1000 }),
  resources("memory-tiny", { memoryLimit: MiB }, { fails: true }),
  resources("memory-reserve-above", { memoryLimit: 32 * MiB, reservedMemory: 64 * MiB }, {
    fails: true,
  }),
  resources("cpu-half", { cpuLimit: 0.5 }),
  resources("cpu-one", { cpuLimit: 1 }),
  resources("cpu-fraction", { cpuLimit: 1.337 }),
  resources("cpu-small", { cpuLimit: 0.01 }),
  resources("cpu-reserved", { reservedCpu: 0.5 }),
  resources("cpu-reserved-two", { reservedCpu: 2 }),
  resources("cpu-memory", { cpuLimit: 0.25, memoryLimit: 128 * MiB }),
];

const limit = (name: string, soft: number, hard: number, rest: Partial<Case> = {}): Case => ({
  name: `ulimit-${name}-${soft}-${hard}`.replaceAll("--1", "-none"),
  ...rest,
  spec: { ulimits: [{ name, soft, hard }] },
});

const ULIMITS: Case[] = [
  limit("nofile", 100, 200),
  limit("nofile", 1024, 1024),
  // Of all processes of its user on the host: few would leave none where others run some.
  limit("nproc", 4096, 4096),
  limit("core", 0, 0),
  limit("core", -1, -1),
  limit("stack", 1048576, 8388608),
  limit("memlock", 65536, 65536),
  limit("cpu", 100, 200),
  limit("fsize", 1000000, 1000000),
  limit("data", -1, -1),
  limit("rttime", 100, 100),
  limit("msgqueue", 1000, 1000),
  limit("sigpending", 50, 60),
  limit("as", -1, -1),
  limit("nofile", 300, 200, { fails: true }),
  limit("nothing", 1, 1, { fails: true }),
  {
    name: "ulimits",
    spec: {
      ulimits: [{ name: "nofile", soft: 100, hard: 200 }, { name: "core", soft: 0, hard: -1 }],
    },
  },
  {
    name: "ulimit-user",
    spec: { user: "user", ulimits: [{ name: "nofile", soft: 100, hard: 200 }] },
  },
];

const SHARED: Case[] = [
  { name: "shm", spec: { shmSize: MiB } },
  { name: "shm-large", spec: { shmSize: 512 * MiB } },
  { name: "shm-odd", spec: { shmSize: 100_000 } },
  { name: "shm-read-only", spec: { shmSize: MiB, readOnly: true } },
  { name: "shm-host", spec: { ipcMode: "host", shmSize: MiB } },
];

export const LIMIT_CASES: Case[] = [...RESOURCES, ...ULIMITS, ...SHARED];
