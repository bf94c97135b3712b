/** How long and how large a download may be: servers hang, drip for ever, and send without end. */
import { formatBytes } from "../../base/bytes.ts";
import { SvcError } from "../../base/errors.ts";

/** A download goes on while at least this many bytes a second come, each window of time for itself. */
const LOWEST_RATE = 1000;

/** The window, and how long a server may take to begin: as long as a request's body may stand still. */
export const PATIENCE_MS = 120_000;

export interface DownloadOptions {
  url: string;
  signal: AbortSignal;
  /** Bytes, at most. */
  maxBytes?: number;
  patienceMs?: number;
}

/** Of downloads beyond SVC_MAX_BUILD_DOWNLOAD_BYTES. */
export function downloadTooLarge(url: string, limit: number): SvcError {
  return new SvcError(
    "build_failed",
    `Cannot fetch ${url}: it has more than ${formatBytes(limit)}`,
    { help: "check the address, or raise SVC_MAX_BUILD_DOWNLOAD_BYTES on the server" },
  );
}

/** Of a server that sends nothing, or next to nothing. */
export function downloadTooSlow(url: string, patienceMs: number): SvcError {
  return new SvcError(
    "upstream_failed",
    `Cannot fetch ${url}: next to nothing came for ${patienceMs / 1000} s`,
    { help: "see whether that server is well, and build again" },
  );
}

/** The address as it may be published. */
export function withoutCredentials(address: string): string {
  if (!URL.canParse(address)) return address;
  const url = new URL(address);
  if (url.username === "" && url.password === "") return address;
  url.username = url.password = "";
  return url.href;
}

/** Watches one download. Dispose of it at its end. */
export class Download implements Disposable {
  /** Aborted with the build, and where too little comes. */
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

  /** Why it was given up here; undefined where it was not. */
  get failure(): SvcError | undefined {
    return this.#stop.signal.aborted ? this.#stop.signal.reason : undefined;
  }

  /** Throws where the announced size is too large. */
  announced(bytes: number | undefined): void {
    const { maxBytes, url } = this.#options;
    if (maxBytes !== undefined && (bytes ?? 0) > maxBytes) throw downloadTooLarge(url, maxBytes);
  }

  /** Counts what came; throws where it is too much. */
  count(bytes: number): void {
    this.received += bytes;
    this.announced(this.received);
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}
