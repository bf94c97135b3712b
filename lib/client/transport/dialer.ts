/** Ways to the server's bytes. Each is one module; open.ts chooses. */
import type { Duplex } from "node:stream";

export interface Dialer extends AsyncDisposable {
  /**
   * A new connection to the server's listener, before any TLS. Opens what lies between on first use, and
   * anew where it broke. Throws `SvcError`. The caller destroys the stream.
   */
  dial(): Promise<Duplex>;
  /** What lies between may break and be opened again: calls that allow it are worth another try. */
  readonly resumes: boolean;
}
