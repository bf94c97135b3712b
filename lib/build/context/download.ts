/** Limits on a download's time and size: servers may hang, send very slowly, or send without end. */
import { formatBytes } from "../../base/bytes.ts";
import { SvcError } from "../../base/errors.ts";

/** Fewest bytes per second, measured over each window of time. */
const LOWEST_RATE = 1000;

/**
 * Length of that window in milliseconds, and how long a server may take to begin. A request's body may stand
 * still as long.
 */
export const PATIENCE_MS = 120_000;

export interface DownloadOptions {
  url: string;
  signal: AbortSignal;
  /** Bytes, at most. */
  maxBytes?: number;
  patienceMs?: number;
}

/** The error of a download beyond SVC_MAX_BUILD_DOWNLOAD_BYTES. */
export function downloadTooLarge(url: string, limit: number): SvcError {
  return new SvcError(
    "build_failed",
    `Cannot fetch ${url}: it has more than ${formatBytes(limit)}`,
    { help: "check the address, or raise SVC_MAX_BUILD_DOWNLOAD_BYTES on the server" },
  );
}

/** The error of a server that sends nothing or almost nothing. */
export function downloadTooSlow(url: string, patienceMs: number): SvcError {
  return new SvcError(
    "upstream_failed",
    `Cannot fetch ${url}: almost nothing arrived for ${patienceMs / 1000} s`,
    { help: "check that server, and build again" },
  );
}

/** The address without user name and password. */
export function withoutCredentials(address: string): string {
  if (!URL.canParse(address)) return address;
  const url = new URL(address);
  if (url.username === "" && url.password === "") return address;
  url.username = url.password = "";
  return url.href;
}

/** Watches one download. The caller disposes of it when the download has ended. */
export class Download implements Disposable {
  /** Aborted with the build, and when the download is too slow. */
  readonly signal: AbortSignal;
  received = 0;
  #options: DownloadOptions;
  #stop = new AbortController();
  #timer: ReturnType<typeof setInterval>;
  #before = 0;

  constructor(options: DownloadOptions) {
    const { patienceMs = PATIENCE_MS, signal, url } = this.#options = options;
    this.signal = AbortSignal.any([signal, this.#stop.signal]);
    const least = Math.ceil(LOWEST_RATE * patienceMs / 1000);
    this.#timer = setInterval(() => {
      if (this.received - this.#before < least) this.#stop.abort(downloadTooSlow(url, patienceMs));
      this.#before = this.received;
    }, patienceMs);
  }

  /** The error of a download that was too slow; undefined otherwise. */
  get failure(): SvcError | undefined {
    return this.#stop.signal.aborted ? this.#stop.signal.reason : undefined;
  }

  /** Throws where the announced size is too large. */
  announced(bytes: number | undefined): void {
    const { maxBytes, url } = this.#options;
    if (maxBytes !== undefined && (bytes ?? 0) > maxBytes) throw downloadTooLarge(url, maxBytes);
  }

  /** Adds received bytes. Throws where the total is too large. */
  count(bytes: number): void {
    this.received += bytes;
    this.announced(this.received);
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}
