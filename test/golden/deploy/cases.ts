/** All cases; the first is the plain deployment that the others are told apart from. */
import type { Case } from "./case.ts";
import { FILE_CASES } from "./cases_files.ts";
import { LIFE_CASES } from "./cases_life.ts";
import { LIMIT_CASES } from "./cases_limits.ts";
import { PROCESS_CASES } from "./cases_process.ts";
import { RIGHT_CASES } from "./cases_rights.ts";

export const CASES: readonly Case[] = [
  { name: "plain" },
  ...PROCESS_CASES,
  ...RIGHT_CASES,
  ...LIMIT_CASES,
  ...FILE_CASES,
  ...LIFE_CASES,
];
