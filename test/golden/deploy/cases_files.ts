/** Root, tmpfs, volumes. */
import type { DeploySpec } from "../../../lib/api/deploy_spec.ts";
import type { Case } from "./case.ts";

const tmpfs = (name: string, text: string, rest: Partial<DeploySpec> = {}): Case => ({
  name: `tmpfs-${name}`,
  spec: { tmpfs: [text], ...rest },
});

const TMPFS: Case[] = [
  tmpfs("plain", "/run"),
  tmpfs("size", "/run:size=64k"),
  tmpfs("size-mega", "/run:size=2m"),
  tmpfs("mode", "/run:mode=700"),
  tmpfs("mode-sticky", "/tmp:mode=1777,size=1m"),
  tmpfs("owner", "/data:uid=1000,gid=50,mode=750"),
  tmpfs("exec", "/run:exec"),
  tmpfs("noexec", "/run:noexec"),
  tmpfs("suid", "/run:suid,dev"),
  tmpfs("ro", "/run:ro"),
  tmpfs("rw", "/run:rw,nosuid,nodev,noexec"),
  tmpfs("new-folder", "/made/deep"),
  tmpfs("over-seed", "/seed"),
  tmpfs("of-user", "/data", { user: "user" }),
  tmpfs("on-shm", "/dev/shm:size=1m"),
  { name: "tmpfs-two", spec: { tmpfs: ["/run", "/data:size=1m"] } },
  { name: "tmpfs-unknown", spec: { tmpfs: ["/run:nonsense"] }, fails: true },
  { name: "tmpfs-relative", spec: { tmpfs: ["run"] }, fails: true },
];

const READ_ONLY: Case[] = [
  { name: "read-only", spec: { readOnly: true } },
  { name: "read-only-user", spec: { readOnly: true, user: "user" } },
  { name: "read-only-tmpfs", spec: { readOnly: true, tmpfs: ["/tmp", "/run:size=1m"] } },
  { name: "read-only-folder", spec: { readOnly: true, workingDir: "/srv" } },
  {
    name: "read-only-volume",
    spec: { readOnly: true, volumes: [{ name: "v", target: "/vol" }] },
  },
];

const volume = (
  name: string,
  target: string,
  rest: Partial<Case> = {},
  readOnly?: boolean,
): Case => ({
  name: `volume-${name}`,
  ...rest,
  spec: { volumes: [{ name: "v", target, ...(readOnly && { readOnly }) }], ...rest.spec },
});

const VOLUMES: Case[] = [
  volume("new", "/vol"),
  volume("seeded", "/seed"),
  volume("deep", "/seed/deep"),
  volume("read-only", "/vol", {}, true),
  volume("read-only-seeded", "/seed", {}, true),
  volume("of-user", "/vol", { spec: { user: "user" } }),
  volume("folder", "/vol", { spec: { workingDir: "/vol" } }),
  volume("kept", "/seed", { then: "restart" }),
  volume("over-hosts", "/etc"),
  { name: "volume-image", image: { Volumes: { "/data": {} } } },
  { name: "volume-image-seeded", image: { Volumes: { "/seed": {} } } },
  { name: "volume-image-two", image: { Volumes: { "/seed": {}, "/vol": {} } } },
  { name: "volume-image-read-only", image: { Volumes: { "/vol": {} } }, spec: { readOnly: true } },
  volume("image-named", "/seed", { image: { Volumes: { "/seed": {} } } }),
  { name: "volume-image-tmpfs", image: { Volumes: { "/seed": {} } }, spec: { tmpfs: ["/seed"] } },
  {
    name: "volume-two",
    spec: { volumes: [{ name: "a", target: "/vol" }, { name: "b", target: "/seed" }] },
  },
  {
    name: "volume-inside",
    spec: { volumes: [{ name: "a", target: "/vol/in" }, { name: "b", target: "/vol" }] },
  },
  {
    name: "volume-same-target",
    spec: { volumes: [{ name: "a", target: "/vol" }, { name: "b", target: "/vol" }] },
    fails: true,
  },
  {
    name: "volume-and-tmpfs",
    spec: { volumes: [{ name: "a", target: "/vol" }], tmpfs: ["/vol"] },
    fails: true,
  },
  volume("relative", "vol", { fails: true }),
  volume("root", "/", { fails: true }),
];

export const FILE_CASES: Case[] = [...TMPFS, ...READ_ONLY, ...VOLUMES];
