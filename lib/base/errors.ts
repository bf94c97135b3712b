/**
 * The error catalogue: every failure that svc reports has one of these codes. `status` is the HTTP status of
 * a server's answer, `exit` the exit code of a command, `oci` the registry's error code (OCI Distribution
 * Specification), `help` what a person can do. The catalogue is in `base` so that every layer can throw; the
 * wire forms are in `lib/api/problem.ts`.
 */
interface Entry {
  status: number;
  exit: number;
  help: string;
  oci?: string;
}

const entry = (status: number, exit: number, help: string, oci?: string): Entry => ({
  status,
  exit,
  help,
  oci,
});

export const CATALOGUE = {
  // what the caller got wrong
  usage: entry(400, 2, "see --help of the command"),
  config_invalid: entry(400, 2, "correct the flag or the variable; `svc serve --help` lists them"),
  argument_invalid: entry(400, 2, "correct the argument"),
  spec_invalid: entry(400, 2, "correct the named field of the deployment spec"),
  reference_invalid: entry(400, 2, "write it as [host[:port]/]name[:tag][@digest]", "NAME_INVALID"),
  compose_invalid: entry(400, 1, "correct the named line of the Compose file"),
  dockerfile_invalid: entry(400, 1, "correct the named line of the Dockerfile"),
  context_invalid: entry(400, 1, "send the build context as a tar archive"),
  archive_invalid: entry(400, 1, "send a whole, undamaged archive"),
  not_found: entry(404, 1, "list what there is and check the name"),
  method_not_allowed: entry(405, 1, "use a method from the Allow header", "UNSUPPORTED"),
  conflict: entry(409, 1, "try again when the other operation has ended"),
  too_large: entry(413, 1, "send less, or raise the limit"),
  unauthorized: entry(401, 1, "log in, or set SVC_TOKEN", "UNAUTHORIZED"),
  misdirected: entry(421, 1, "use a name or an address of the server's own", "DENIED"),
  denied: entry(403, 1, "ask for the missing permission", "DENIED"),
  cancelled: entry(499, 1, "the caller went away before the operation ended"),
  // what this build, this backend or this machine cannot do
  not_in_build: entry(501, 2, "leave the option at its default, or use a build that has it"),
  unsupported: entry(501, 1, "choose a backend that can do it", "UNSUPPORTED"),
  prerequisite_missing: entry(503, 1, "install what is named and try again"),
  address_in_use: entry(500, 1, "set SVC_ADDR or stop the other server"),
  port_in_use: entry(409, 1, "stop what uses the port, or publish another one"),
  data_dir_locked: entry(500, 1, "stop the other server or choose another --data-dir"),
  data_dir_foreign: entry(500, 1, "choose an empty directory or one that svc made"),
  storage_full: entry(507, 1, "free space on the volume of the data directory", "UNKNOWN"),
  // what went wrong elsewhere
  build_failed: entry(422, 1, "see the step's output above"),
  deploy_failed: entry(422, 1, "see the instance's last log lines"),
  upstream_failed: entry(502, 1, "check that the other server is up and reachable"),
  server_unreachable: entry(502, 1, "start `svc serve`, or set SVC_SERVER"),
  unavailable: entry(503, 1, "try again shortly", "TOOMANYREQUESTS"),
  timeout: entry(504, 1, "try again; the other side did not answer in time"),
  internal: entry(500, 1, "this is a defect of svc: please report it with the log", "UNKNOWN"),
  // registry (OCI Distribution Specification 1.1, "Error Codes")
  blob_in_use: entry(405, 1, "delete the manifests that refer to it first", "DENIED"),
  blob_unknown: entry(404, 1, "push the blob first", "BLOB_UNKNOWN"),
  blob_upload_invalid: entry(400, 1, "start the upload again", "BLOB_UPLOAD_INVALID"),
  blob_upload_unknown: entry(404, 1, "start the upload again", "BLOB_UPLOAD_UNKNOWN"),
  digest_invalid: entry(400, 1, "send the digest of the bytes you send", "DIGEST_INVALID"),
  manifest_blob_unknown: entry(404, 1, "push the blob first", "MANIFEST_BLOB_UNKNOWN"),
  manifest_invalid: entry(400, 1, "send a manifest the specification allows", "MANIFEST_INVALID"),
  manifest_too_large: entry(413, 1, "a manifest has at most 4 MiB", "MANIFEST_INVALID"),
  manifest_unknown: entry(404, 1, "check the tag or digest", "MANIFEST_UNKNOWN"),
  body_malformed: entry(400, 1, "send the body as its head announces it", "BLOB_UPLOAD_INVALID"),
  too_many_tags: entry(414, 1, "push the manifest again with the other tags"),
  name_invalid: entry(400, 1, "use a name the specification allows", "NAME_INVALID"),
  name_unknown: entry(404, 1, "check the repository name", "NAME_UNKNOWN"),
  registry_read_only: entry(
    405,
    1,
    "start the server with SVC_REGISTRY_SOURCE=off, or with --storage, for a registry that takes pushes",
    "UNSUPPORTED",
  ),
  size_invalid: entry(400, 1, "send as many bytes as declared", "SIZE_INVALID"),
  range_invalid: entry(416, 1, "ask for bytes that exist", "BLOB_UPLOAD_INVALID"),
} as const satisfies Record<string, Entry>;

export type ErrorCode = keyof typeof CATALOGUE;

export interface SvcErrorOptions {
  cause?: unknown;
  /** Replaces the help text of the catalogue. */
  help?: string;
  /** Machine-readable detail for the wire: small, serialisable, no secrets. */
  detail?: Record<string, unknown>;
}

/**
 * The one error type that crosses a module boundary. `message` says what was attempted, a colon, and
 * what stands in the way (DESIGN.md rule 10); what to do comes from the catalogue or `help`.
 */
export class SvcError extends Error {
  override readonly name = "SvcError";
  readonly code: ErrorCode;
  readonly help: string;
  readonly detail?: Record<string, unknown>;

  constructor(code: ErrorCode, message: string, options: SvcErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.help = options.help ?? CATALOGUE[code].help;
    this.detail = options.detail;
  }

  get status(): number {
    return CATALOGUE[this.code].status;
  }

  get exit(): number {
    return CATALOGUE[this.code].exit;
  }
}

/** True for an abort that the caller asked for (signal or closed connection). */
export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError" ||
    error instanceof SvcError && error.code === "cancelled";
}

const SYSTEM_CODES: Record<string, ErrorCode> = {
  ENOSPC: "storage_full",
  EDQUOT: "storage_full",
  EADDRINUSE: "address_in_use",
  ECONNREFUSED: "server_unreachable",
};

/** The `E…` name of a system error, from Deno's and node's error objects alike. */
export function systemCode(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const code = (error as { code?: unknown }).code;
  return typeof code === "string" && /^E[A-Z0-9]+$/.test(code) ? code : undefined;
}

/** True where another program, or its database, says that its disk is full; few have a code of their own for it. */
export const tellsFullDisk = (words: string): boolean =>
  /no space left on device|disk quota exceeded|database or disk is full/i.test(words);

const FILE_TROUBLES: Readonly<Record<string, string>> = {
  ENOENT: "there is no such file",
  ENOTDIR: "there is no such file",
  EACCES: "permission denied",
  EISDIR: "it is a directory",
};

/** Why a file cannot be read, in words that do not name it. */
export function fileTrouble(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  const code = systemCode(error);
  return code ? FILE_TROUBLES[code] ?? message.split(":")[0] : message;
}

/** Any thrown value as an `SvcError`; an unknown one becomes `internal` and keeps its cause. */
export function asSvcError(error: unknown, attempted?: string): SvcError {
  if (error instanceof SvcError) return error;
  const text = error instanceof Error ? error.message : String(error);
  const message = attempted ? `${attempted}: ${text}` : text;
  if (isAbort(error)) return new SvcError("cancelled", message, { cause: error });
  if (error instanceof DOMException && error.name === "TimeoutError") {
    return new SvcError("timeout", message, { cause: error });
  }
  const known = SYSTEM_CODES[systemCode(error) ?? ""];
  return new SvcError(known ?? "internal", message, { cause: error });
}
