/** Turns the SDK's errors into those of the shared modules. */
import { ServiceError, STATUS_NAMES } from "../shared/errors.ts";

/** Azure's error names and their shared equivalents. */
const NAMES: Record<string, string> = {
  BlobNotFound: "NoSuchKey",
  ContainerNotFound: "NoSuchBucket",
  ContainerBeingDeleted: "NoSuchBucket",
  InvalidBlockList: "NoSuchUpload",
  InvalidBlockId: "NoSuchUpload",
  BlobAlreadyExists: "PreconditionFailed",
  ConditionNotMet: "PreconditionFailed",
  AuthenticationFailed: "AccessDenied",
  AuthorizationFailure: "AccessDenied",
  AuthorizationPermissionMismatch: "AccessDenied",
  InvalidAuthenticationInfo: "AccessDenied",
  InsufficientAccountPermissions: "AccessDenied",
  ServerBusy: "ServiceUnavailable",
};

export function told(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  // Errors of @azure/identity: there is no credential, or none is accepted.
  if (["CredentialUnavailableError", "AggregateAuthenticationError"].includes(error.name)) {
    return new ServiceError("CredentialsProviderError", undefined, error.message, { cause: error });
  }
  if (error.name === "AuthenticationError" || error.name === "AuthenticationRequiredError") {
    return new ServiceError("AccessDenied", 401, error.message, { cause: error });
  }
  if (error.name !== "RestError") return error;
  const { code, statusCode } = error as { code?: string; statusCode?: number };
  const name = NAMES[code ?? ""] ?? STATUS_NAMES[statusCode ?? 0] ?? code ?? error.name;
  const status = name === "PreconditionFailed" ? 412 : statusCode;
  // The lines after the first describe the request.
  return new ServiceError(name, status, error.message.split("\n")[0], { cause: error });
}
