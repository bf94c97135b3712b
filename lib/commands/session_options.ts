/** How a session reaches workloads: options of the commands that open a session or describe one. */
import type { AnyOption } from "../config/load.ts";
import { optionRows } from "../config/option_rows.ts";

const section = "Sessions";
const { text } = optionRows("Sessions");

export const VIA_SERVER = {
  key: "viaServer",
  kind: "bool",
  flag: "via-server",
  negatable: true,
  env: ["SVC_VIA_SERVER"],
  defaultText: "via-server of the connection profile, else off",
  help: "Workload streams go through the server instead of directly to the cluster.",
  section,
} as const satisfies AnyOption;

/** Options of commands that open a conduit. */
export const CONDUIT_OPTIONS = [
  VIA_SERVER,
  {
    ...text("conduit", "conduit", "MODE", "How a session makes a deployment's ports reachable."),
    env: ["SVC_CONDUIT"],
    choices: ["port-forward", "socks5"],
    defaultText: "conduit.mode of the connection profile, else port-forward",
  },
] as const satisfies readonly AnyOption[];

export const DETACH_SESSION = {
  key: "detach",
  kind: "bool",
  flag: "detach",
  short: "d",
  help: "With --session: leave once it runs. This machine's agent holds the session (svc daemon).",
  section,
} as const satisfies AnyOption;

export const SESSION_OPTIONS = [
  ...CONDUIT_OPTIONS,
  {
    key: "ghBin",
    kind: "string",
    env: ["SVC_GH_BIN"],
    placeholder: "PATH",
    defaultText: "gh on PATH",
    help:
      "The code host's tool that a session's credential source runs, on the machine of the session.",
    section,
  },
] as const satisfies readonly AnyOption[];

/** The same variables without flags: for commands that use these flag names for something else. */
export const SESSION_VARIABLES: readonly AnyOption[] = SESSION_OPTIONS.map((option) =>
  ({ ...option, flag: undefined }) as AnyOption
);

export interface SessionValues {
  viaServer?: boolean;
  conduit?: string;
  ghBin?: string;
}
