/** Failures of the daemon as errors of the catalogue. */
import { type ErrorCode, SvcError, systemCode, tellsFullDisk } from "../base/errors.ts";
import { tlsWords } from "./tls_words.ts";

/** What the errors say of the daemon. */
export interface DaemonWords {
  /** "the Docker daemon". */
  product: string;
  /** As a person writes it. */
  address: string;
  /** What to do where it cannot be reached. */
  help: string;
}

const BY_STATUS: Record<number, ErrorCode> = {
  400: "argument_invalid",
  401: "unauthorized",
  403: "denied",
  404: "not_found",
  405: "unsupported",
  409: "conflict",
  501: "unsupported",
  503: "unavailable",
};

/** Podman has one status for most refusals. Their causes are a closed set of its own, told beside the words. */
const BY_CAUSE: Record<string, ErrorCode> = {
  "no such container": "not_found",
  "no such exec session": "not_found",
  "container state improper": "conflict",
  "that name is already in use": "conflict",
  "container already exists": "conflict",
  "network already exists": "conflict",
  "network is being used": "conflict",
  "volume is being used": "conflict",
};

const SYSTEM_WORDS: Record<string, string> = {
  ENOENT: "there is no such socket",
  ECONNREFUSED: "nothing listens there",
  EACCES: "this server's user may not open it",
  ENOTFOUND: "the host's name is unknown",
  EHOSTUNREACH: "the host cannot be reached",
  ENETUNREACH: "the network cannot be reached",
  ETIMEDOUT: "the host does not answer",
};

/** What to do where the disk of the daemon is full. */
export const FULL_HELP = "free space on the daemon's volume";

/** The daemon answered with an error. `words` and `cause` are its own; `status` is in the detail. */
export function refusalOf(
  attempted: string,
  status: number,
  words: string,
  cause = "",
): SvcError {
  if (tellsFullDisk(words)) {
    return new SvcError("storage_full", `${attempted}: ${words}`, {
      help: FULL_HELP,
      detail: { status },
    });
  }
  const code = BY_CAUSE[cause] ?? BY_STATUS[status] ?? "upstream_failed";
  return new SvcError(code, `${attempted}: ${words}`, {
    // The catalogue's help is about svc's own names; these words are the daemon's.
    help: code === "unavailable" ? undefined : "see the daemon's words above",
    detail: { status },
  });
}

/** The HTTP status of a {@linkcode refusalOf}; undefined for other errors. */
export function daemonStatus(error: unknown): number | undefined {
  const status = error instanceof SvcError ? error.detail?.status : undefined;
  return typeof status === "number" ? status : undefined;
}

/** True where the daemon cannot be reached at all, or went away. */
export function isGone(error: unknown): boolean {
  return error instanceof SvcError && error.detail?.daemon === "gone";
}

/** No connection came about. */
export function unreachable(
  { product, address, help }: DaemonWords,
  cause: unknown,
): SvcError {
  if (cause instanceof SvcError) return cause;
  const text = cause instanceof Error ? cause.message : String(cause);
  const plain = NO_TLS.test(text);
  const tls = tlsWords(cause);
  const why = plain
    ? "it does not speak TLS"
    : tls?.why ?? SYSTEM_WORDS[systemCode(cause) ?? ""] ?? text;
  return new SvcError("unavailable", `Cannot reach ${product} at ${address}: ${why}`, {
    cause,
    help: plain ? "unset DOCKER_TLS_VERIFY, or name the daemon's port for TLS" : tls?.help ?? help,
    detail: { daemon: "gone" },
  });
}

/** The words of programs in Go for a request without TLS where TLS is spoken. */
export const WITHOUT_TLS = /HTTP request to an HTTPS server/;

/** An answer without TLS, in the words of Deno's TLS and of OpenSSL. */
const NO_TLS = /InvalidContentType|wrong version number|packet length too long/i;

/** The daemon speaks TLS, and was asked without. */
export function speaksTls({ product, address }: DaemonWords): SvcError {
  return new SvcError("unavailable", `Cannot reach ${product} at ${address}: it speaks TLS`, {
    help:
      "set DOCKER_TLS_VERIFY=1, and DOCKER_CERT_PATH to the folder of ca.pem, cert.pem and key.pem",
    detail: { daemon: "gone" },
  });
}

/** The connection broke in the middle of an exchange. */
export function broken(
  { product, address, help }: DaemonWords,
  attempted: string,
  cause: unknown,
): SvcError {
  if (tlsWords(cause)) return unreachable({ product, address, help }, cause);
  const why = systemCode(cause) ?? (cause instanceof Error ? cause.message : String(cause));
  return new SvcError(
    "unavailable",
    `${attempted}: the connection to ${product} at ${address} broke (${why})`,
    { cause, help, detail: { daemon: "gone" } },
  );
}

/** The answer is none of the Docker Engine API. */
export function rubbish(
  { product, address }: DaemonWords,
  attempted: string,
  what: string,
  cause?: unknown,
): SvcError {
  return new SvcError(
    "upstream_failed",
    `${attempted}: ${product} at ${address} answered ${what}`,
    { cause, help: "check that this address is a Docker Engine API" },
  );
}

/** Nothing came in time. */
export function silent(
  { product, address }: DaemonWords,
  attempted: string,
  ms: number,
): SvcError {
  return new SvcError(
    "timeout",
    `${attempted}: ${product} at ${address} gave no answer in ${Math.round(ms / 1000)} s`,
    { help: "look at the daemon's log, and try again", detail: { daemon: "silent" } },
  );
}

/** For `catch`: a thing that is gone is no failure. */
export function ignoringMissing(error: unknown): undefined {
  if (daemonStatus(error) !== 404) throw error;
  return undefined;
}
