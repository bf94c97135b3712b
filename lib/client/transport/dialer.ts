/** Transports to the server's listener. Each is one module; open.ts chooses. */
import type { Duplex } from "node:stream";

export interface Dialer extends AsyncDisposable {
  /**
   * A new connection to the server's listener, before any TLS. Opens the tunnel on first use, and again after
   * it broke. Throws `SvcError`. The caller destroys the stream.
   */
  dial(): Promise<Duplex>;
  /**
   * True where the tunnel can be opened again after it broke: calls that may be repeated are worth another
   * attempt.
   */
  readonly resumes: boolean;
}
