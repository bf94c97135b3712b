/** A check as a person reads it. */
import type { Check } from "../../client/doctor/way.ts";

const MARKS = { ok: "ok     ", warning: "warning", failed: "FAILED " } as const;

export function checkLine({ name, outcome, detail, help }: Check): string {
  const hint = help && outcome !== "ok" ? `         ${help}\n` : "";
  return `${MARKS[outcome]}  ${name}: ${detail}\n${hint}`;
}
