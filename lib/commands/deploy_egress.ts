/** The egress of `svc deploy`: its flags, laid over a spec's field. */
import {
  EGRESS_MODES,
  EGRESS_ROUTES,
  type EgressMode,
  type EgressRoute,
  type EgressSpec,
} from "../api/egress.ts";
import { SvcError } from "../base/errors.ts";
import { suggestion } from "../base/nearest.ts";
import type { Io } from "../base/terminal.ts";
import { callersProxies } from "../egress/variables.ts";
import { readInput } from "./input.ts";

export interface EgressValues {
  egress?: string;
  egressRoutes?: readonly string[];
  egressDefault?: string;
  egressPac?: string;
}

function word<W extends string>(text: string, words: readonly W[], flag: string): W {
  const found = words.find((one) => one === text);
  if (found !== undefined) return found;
  const hint = suggestion(text, words);
  throw new SvcError(
    "argument_invalid",
    `Cannot read ${flag}: ${JSON.stringify(text)} is not one of ${words.join(", ")}${hint}`,
  );
}

function rule(text: string): { pattern: string; route: EgressRoute } {
  const at = text.lastIndexOf("=");
  if (at <= 0) {
    throw new SvcError(
      "argument_invalid",
      `Cannot read --egress-route ${JSON.stringify(text)}: there is no = in it`,
      { help: "write PATTERN=ROUTE, such as '*.internal=client'" },
    );
  }
  const route = word(text.slice(at + 1), EGRESS_ROUTES, `--egress-route ${text}`);
  return { pattern: text.slice(0, at), route };
}

/** What the flags say; undefined: nothing. Rules of flags come before those of the spec. */
export async function egressFlags(
  { egress, egressRoutes = [], egressDefault, egressPac }: EgressValues,
  io: Pick<Io, "stdin">,
): Promise<EgressSpec | undefined> {
  const mode: EgressMode | undefined = egress === undefined
    ? undefined
    : word(egress, EGRESS_MODES, "--egress");
  const found: EgressSpec = {
    ...(mode && { mode }),
    ...(egressRoutes.length > 0 && { rules: egressRoutes.map(rule) }),
    ...(egressDefault !== undefined && {
      default: word(egressDefault, EGRESS_ROUTES, "--egress-default"),
    }),
    ...(egressPac !== undefined && {
      script: await readInput(egressPac, "proxy auto-configuration script", io as Io),
    }),
  };
  return Object.keys(found).length > 0 ? found : undefined;
}

type Json = Record<string, unknown>;

const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The field of an unchecked document with the flags, and the caller's proxies where mode env names none. */
export function laidOver(
  field: unknown,
  flags: EgressSpec | undefined,
  env: Readonly<Record<string, string | undefined>>,
): unknown {
  // Anything but a mapping is left for the check.
  if (field !== undefined && !isObject(field)) return field;
  if (!field && !flags) return undefined;
  const { rules = [], ...rest } = { ...field } as Json;
  const all = [...flags?.rules ?? [], ...Array.isArray(rules) ? rules : []];
  const egress: Json = {
    ...rest,
    ...flags,
    ...(all.length > 0
      ? { rules: all }
      : rules !== undefined && !Array.isArray(rules) && { rules }),
  };
  if (egress.mode === "env" && egress.proxies === undefined) egress.proxies = callersProxies(env);
  return egress;
}
