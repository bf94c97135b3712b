/** Every Dockerfile that svc and BuildKit are compared on. */
import { ADD_CASES } from "./cases_add.ts";
import { CONFIG_CASES } from "./cases_config.ts";
import { COPY_CASES } from "./cases_copy.ts";
import { MODE_CASES } from "./cases_modes.ts";
import { MORE_CASES } from "./cases_more.ts";
import { RUN_CASES } from "./cases_run.ts";
import { STAGE_CASES } from "./cases_stage.ts";

export const CASES = [
  ...COPY_CASES,
  ...ADD_CASES,
  ...RUN_CASES,
  ...CONFIG_CASES,
  ...STAGE_CASES,
  ...MORE_CASES,
  ...MODE_CASES,
];
