/** What the agent can hold, by kind. */
import type { Holder } from "../../agent/held.ts";
import type { Work } from "./work.ts";

export const HOLDERS: Readonly<Record<Work["kind"], Holder>> = {
  async session(description, context) {
    const { holdSession } = await import("./hold_session.ts");
    await holdSession(description, context);
  },
  async ports(description, context) {
    const { holdPorts } = await import("./hold_ports.ts");
    await holdPorts(description, context);
  },
};
