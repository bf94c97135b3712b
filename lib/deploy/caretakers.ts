/**
 * What a backend needs of the server for the caretakers beside its instances: their environment, and their one
 * connection to the server. The backend makes and removes the companions themselves.
 */
import type { Duplex } from "../wire/duplex.ts";
import type { AgentConnect, ForwardedAgent } from "./caps.ts";

/** The instance that a companion is for. */
export interface CaredFor {
  /** Unique among all instances that ever were. */
  key: string;
  deployment: string;
  /** "web-0", for people. */
  instance: string;
}

/** Settings by role, as `svc caretaker` reads them. */
export type Roles = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

/** The caretakers of one server. */
export interface Caretakers {
  /**
   * The image of companions. Throws `prerequisite_missing`, with the variables that are not set: called before anything
   * is made. `attempt`: "deploy web".
   */
  requireImage(attempt: string): string;
  /** From now on the caretaker with this instance's token may attach. Idempotent. */
  expect(of: CaredFor): void;
  /** The caretaker's environment, with its token. */
  environment(of: CaredFor, roles: Roles): Record<string, string>;
  /** The instance is gone: its caretaker is hung up on, and its token is worth nothing from now on. Idempotent. */
  forget(key: string): void;
  /**
   * Resolves when the caretaker is attached and its roles have started. Throws `deploy_failed` with the role that could
   * not start, and the signal's reason.
   */
  started(key: string, signal: AbortSignal): Promise<void>;
  /** True while the caretaker is attached, and serves. */
  serves(key: string): boolean;
  /**
   * A connection to a port beside the caretaker. Waits a little for one that is away. Throws `unavailable` where it
   * stays away, `upstream_failed` where nothing listens.
   */
  dial(key: string, port: number, protocol: "tcp" | "udp", signal?: AbortSignal): Promise<Duplex>;
  /** Makes a socket for an agent, until it is disposed of. Throws as `dial`. */
  forwardAgent(key: string, connect: AgentConnect, signal?: AbortSignal): Promise<ForwardedAgent>;
}
