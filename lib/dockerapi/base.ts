/** What containers, networks and volumes of the Docker API have of `svc daemon docker`. */
import type { Client } from "../client/client.ts";
import type { CredentialProvider } from "../client/credentials/provider.ts";
import type { Target } from "../client/resolve.ts";
import type { Way } from "../client/transport/open.ts";
import type { EventHub } from "./events/hub.ts";

/** What `svc daemon docker` brings. */
export interface ApiParts {
  /**
   * The svc server's client. Give the call's signal to whatever may last: the stream behind it ends with it.
   * Without one the call goes on when docker's client has gone.
   */
  client(signal?: AbortSignal): Client;
  /** How the server is reached, for what goes to its registry. */
  readonly connection: { target: Target; way: Way; credentials: CredentialProvider };
  readonly env: Readonly<Record<string, string | undefined>>;
  /** True where the server is on this machine: published ports and folders are those of this machine. */
  readonly isLocal: boolean;
  /** One line for the person who runs `svc daemon docker`. */
  warn(text: string): void;
}

export interface ApiBase extends ApiParts {
  /** Aborts when `svc daemon docker` has ended what it holds. */
  readonly signal: AbortSignal;
  /** The path of the socket that this API is served on. */
  readonly socket: string;
  /** The folder of the records (mode 0700), which exists. */
  readonly folder: string;
  readonly events: EventHub;
}
