/** The option tables of every backend, in the order of the reference page. */
import type { OptionTable } from "../lib/config/table.ts";
import { WORKER_TABLES } from "./build/mod.ts";
import { DEPLOY_TABLES } from "./deploy/mod.ts";
import { STORE_TABLES } from "./store/mod.ts";
import { TUNNEL_TABLES } from "./tunnel/mod.ts";

export const BACKEND_TABLES: readonly OptionTable[] = [
  ...STORE_TABLES,
  ...WORKER_TABLES,
  ...DEPLOY_TABLES,
  ...TUNNEL_TABLES,
];
