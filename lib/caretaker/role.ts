/** A role of a caretaker: one thing that it does for the workload beside it. */
import type { Logger } from "../base/log.ts";
import type { Kind } from "../wire/attached/kinds.ts";
import type { Fields, Handler } from "../wire/attached/session.ts";
import type { YamuxStream } from "../wire/yamux/stream.ts";

export type Settings = Readonly<Record<string, unknown>>;

/** What a role is given. */
export interface RoleParts {
  /** Opens a stream to the server. Throws `unavailable` while the connection is lost. */
  open(kind: Kind, fields?: Fields): YamuxStream;
  log: Logger;
  /** Aborts when the caretaker ends. */
  signal: AbortSignal;
}

export interface StartedRole extends AsyncDisposable {
  /** The streams that the server may open for this role. */
  takes?: Partial<Record<Kind, Handler>>;
  /** Called once, on the first connection to the server, for what needs it. The role serves once it has resolved. */
  attached?(): Promise<void>;
}

export interface RoleModule {
  /** Throws `config_invalid` for its settings, and what keeps it from starting. */
  start(settings: Settings, parts: RoleParts): Promise<StartedRole>;
}

/** A row of the table of roles. */
export interface RoleRow {
  help: string;
  /** The role needs `server` in the document. */
  needsServer?: true;
  /** Absent: this build does not have the role. */
  load?: () => Promise<RoleModule>;
}
