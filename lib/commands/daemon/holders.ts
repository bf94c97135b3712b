/** What the agent can hold, by kind. */
import type { Holder } from "../../agent/held.ts";

export const HOLDERS: Readonly<Record<string, Holder>> = {};
