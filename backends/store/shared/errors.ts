/** Turns the service's errors into the catalogue's. No decision depends on the text of a message. */
import { SvcError } from "../../../lib/base/errors.ts";
import { ConnectionError, StalledError } from "./http.ts";

/**
 * An error answer of a service. `name` is the service's own name for it, or S3's name for the errors that
 * modules tell apart: NoSuchKey, NoSuchBucket, NoSuchUpload, InvalidPart, AccessDenied.
 */
export class ServiceError extends Error {
  constructor(
    override readonly name: string,
    readonly status: number | undefined,
    message: string = name,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** Names for statuses that come without one: answers to HEAD have no body. */
export const STATUS_NAMES: Readonly<Record<number, string>> = {
  401: "AccessDenied",
  403: "AccessDenied",
  404: "NoSuchKey",
  412: "PreconditionFailed",
  416: "InvalidRange",
  429: "TooManyRequests",
  501: "NotImplemented",
  503: "ServiceUnavailable",
};

/** The service's name of an error, or undefined for anything else. */
export function serviceCode(error: unknown): string | undefined {
  return error instanceof ServiceError ? error.name : undefined;
}

export function serviceStatus(error: unknown): number | undefined {
  return error instanceof ServiceError ? error.status : undefined;
}

/** True where the object or the bucket is missing. */
export function isMissing(error: unknown): boolean {
  return ["NoSuchKey", "NotFound"].includes(serviceCode(error) ?? "");
}

/** True where a condition of the request (`If-None-Match`, `If-Match`) does not hold. */
export function isRefusedCondition(error: unknown): boolean {
  return serviceStatus(error) === 412 || serviceCode(error) === "ConditionalRequestConflict";
}

/** True where the service does not know the operation or one of its header fields. */
export function isNotImplemented(error: unknown): boolean {
  return serviceStatus(error) === 501 || serviceCode(error) === "NotImplemented";
}

/** Names of errors for a full storage or quota. */
const FULL = new Set(["QuotaExceeded", "InsufficientStorage", "XMinioStorageFull"]);
/** Names of errors for a busy service. */
const BUSY = new Set(["SlowDown", "ServiceUnavailable", "Throttling", "TooManyRequests"]);
const LOGIN = new Set([
  "AccessDenied",
  "InvalidAccessKeyId",
  "SignatureDoesNotMatch",
  "ExpiredToken",
  "InvalidToken",
  "Forbidden",
]);

const ask = (shown: string) =>
  `\`svc doctor storage ${shown}\` tries every operation that is needed`;

/**
 * `attempted` names the failed operation ("read blobs/x"). svc's own errors and the caller's abort are passed
 * on unchanged.
 */
export function storeError(error: unknown, attempted: string, shown: string): unknown {
  if (error instanceof SvcError || error instanceof DOMException) return error;
  const cannot = (why: string) => `Cannot ${attempted} in ${shown}: ${why}`;
  if (error instanceof StalledError) {
    return new SvcError("unavailable", cannot(error.message), { cause: error });
  }
  if (error instanceof ConnectionError) {
    return new SvcError("upstream_failed", cannot(`no connection: ${error.message}`), {
      cause: error,
    });
  }
  const code = error instanceof Error ? error.name : "";
  if (LOGIN.has(code)) {
    return new SvcError("upstream_failed", cannot(`the login is refused (${code})`), {
      cause: error,
      help: `check the credentials and what they may do; ${ask(shown)}`,
    });
  }
  if (code === "CredentialsProviderError" || code === "CredentialUnavailableError") {
    const [why] = (error as Error).message.split("\n");
    return new SvcError("upstream_failed", cannot(`no credentials were found (${why})`), {
      cause: error,
      help:
        "give the storage's own parameters for them, or what the standard credential chain reads",
    });
  }
  if (code === "NoSuchBucket") {
    return new SvcError("upstream_failed", cannot("there is no such bucket"), {
      cause: error,
      help: "create it, or correct the name, the region or the endpoint",
    });
  }
  const status = serviceStatus(error);
  if (FULL.has(code) || status === 507) {
    return new SvcError("storage_full", cannot("the bucket takes no more"), { cause: error });
  }
  if (BUSY.has(code) || status !== undefined && (status >= 500 || status === 429)) {
    return new SvcError("unavailable", cannot(`the service answers ${status} ${code}`), {
      cause: error,
    });
  }
  const why = error instanceof Error ? `${code}: ${error.message}` : String(error);
  return new SvcError("upstream_failed", cannot(why), { cause: error, help: ask(shown) });
}
