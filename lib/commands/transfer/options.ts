/** Options of `svc push` and `svc pull`. */
import { SvcError } from "../../base/errors.ts";
import type { AnyOption } from "../../config/load.ts";
import { optionRows } from "../../config/option_rows.ts";

const section = "Options";
const { flag, text } = optionRows("Options");

/** Blobs at once, at most: more do not help any network and hurt most registries. */
const MAX_JOBS = 64;

const SHARED = [
  {
    ...text(
      "platform",
      "platform",
      "OS/ARCH",
      "Copy only this platform of a multi-platform image, os/arch[/variant].",
    ),
    defaultText: "all of them",
  },
  flag(
    "referrers",
    "referrers",
    "Also copy what refers to the image: signatures, SBOMs, attestations.",
  ),
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
  flag("quiet", "quiet", "Print only the digest.", "q"),
] as const satisfies readonly AnyOption[];

export const PUSH_OPTIONS = SHARED;

export const PULL_OPTIONS = [
  text(
    "out",
    "out",
    "FILE",
    "Write a docker archive, as docker save does; the same as docker-archive:FILE.",
    "o",
  ),
  ...SHARED,
] as const satisfies readonly AnyOption[];
