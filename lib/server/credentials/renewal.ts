/** Keeps the files of one deployment's credentials new. */
import type { Logger } from "../../base/log.ts";
import { sleep } from "../../base/sleep.ts";
import type { KeptCredential } from "../../credentials/kept_source.ts";

/** Milliseconds between two renewals, at least, and until a failed one is tried again. */
const LEAST_MS = 1000;
const RETRY_MS = 30_000;

export interface Renewal {
  deployment: string;
  /** The credential's name. */
  name: string;
  /** Asks for the credential. */
  get(): Promise<KeptCredential>;
  /** Writes what is delivered of it. */
  write(credential: KeptCredential): Promise<void>;
  log: Logger;
  signal: AbortSignal;
}

/** Renews the files when it is time, until the signal. `firstMs`: of what they have now; absent: never. */
export async function renew(renewal: Renewal, firstMs: number | undefined): Promise<void> {
  const { deployment, name, get, write, log, signal } = renewal;
  for (let ms = firstMs; ms !== undefined;) {
    try {
      await sleep(Math.max(LEAST_MS, ms), signal);
    } catch {
      return;
    }
    try {
      const credential = await get();
      if (signal.aborted) return;
      await write(credential);
      ms = credential.renewInMs;
    } catch (error) {
      if (signal.aborted) return;
      log.warn("a credential was not renewed; svc tries again", { deployment, name, error });
      ms = RETRY_MS;
    }
  }
}
