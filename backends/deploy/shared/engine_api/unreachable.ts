/** The refusal of connections to containers whose addresses lead nowhere, or to others, from this server. */
import { SvcError } from "../../../../lib/base/errors.ts";

export interface Unreachable {
  /** After "its containers' addresses": "are on the host of tcp://far:2375, not here". */
  why: string;
  /** What else helps: "run the server on the daemon's host". */
  instead: string;
  /** The variable by which companions reach them. */
  variable: string;
}

export const unreachable = (attempted: string, { why, instead, variable }: Unreachable): SvcError =>
  new SvcError("unsupported", `${attempted}: its containers' addresses ${why}`, {
    help:
      `publish the port (ports in the spec), or ${instead}; or set ${variable}, for a companion ` +
      "that reaches it",
  });
