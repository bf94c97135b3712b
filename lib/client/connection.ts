/** What a command has of its server. */
import type { Client } from "./client.ts";
import type { CredentialProvider } from "./credentials/provider.ts";
import type { Target } from "./resolve.ts";
import type { Way } from "./transport/open.ts";

export interface Connection {
  client: Client;
  target: Target;
  /** How requests reach the server. */
  way: Way;
  credentials: CredentialProvider;
}
