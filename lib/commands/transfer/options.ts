/** Options of `svc push` and `svc pull`. */
import { SvcError } from "../../base/errors.ts";
import type { AnyOption } from "../../config/load.ts";

const section = "Options";

/** Blobs at once, at most: more do not help any network and hurt most registries. */
const MAX_JOBS = 64;

const SHARED = [
  {
    key: "platform",
    kind: "string",
    flag: "platform",
    placeholder: "OS/ARCH",
    defaultText: "all of them",
    help: "Copy only this platform of a multi-platform image, os/arch[/variant].",
    section,
  },
  {
    key: "referrers",
    kind: "bool",
    flag: "referrers",
    help: "Also copy what refers to the image: signatures, SBOMs, attestations.",
    section,
  },
  {
    key: "jobs",
    kind: "int",
    flag: "jobs",
    short: "j",
    default: 4,
    placeholder: "N",
    help: "Blobs to move at once.",
    section,
    check: (value: number, source: string) => {
      if (value >= 1 && value <= MAX_JOBS) return value;
      throw new SvcError("config_invalid", `Cannot read ${source}: expected 1..${MAX_JOBS}`);
    },
  },
  {
    key: "plainHTTP",
    kind: "list",
    flag: "plain-http",
    placeholder: "HOST",
    defaultText: "this machine's own hosts",
    help: "Registry to contact without TLS; may be repeated.",
    section,
  },
  {
    key: "quiet",
    kind: "bool",
    flag: "quiet",
    short: "q",
    help: "Print only the digest.",
    section,
  },
] as const satisfies readonly AnyOption[];

export const PUSH_OPTIONS = SHARED;

export const PULL_OPTIONS = [
  {
    key: "out",
    kind: "string",
    flag: "out",
    short: "o",
    placeholder: "FILE",
    help: "Write a docker archive, as docker save does; the same as docker-archive:FILE.",
    section,
  },
  ...SHARED,
] as const satisfies readonly AnyOption[];
