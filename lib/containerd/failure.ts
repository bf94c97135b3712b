/** containerd's statuses as errors of ours. */
import { type ErrorCode, SvcError, tellsFullDisk } from "../base/errors.ts";
import type { CallFailure } from "../wire/grpc/call.ts";

/** gRPC statuses with an error code of their own; all others are containerd's own failures. */
const CODES: Record<number, ErrorCode> = {
  1: "cancelled",
  3: "argument_invalid",
  4: "timeout",
  5: "not_found",
  6: "conflict",
  7: "denied",
  8: "storage_full",
  9: "conflict",
  12: "unsupported",
  14: "unavailable",
};

export function containerdFailure(attempted: string): (failure: CallFailure) => SvcError {
  return ({ status, said }) => {
    // containerd has no status of its own for this.
    const full = tellsFullDisk(said);
    const code = full ? "storage_full" : CODES[status] ?? "internal";
    const help = full ? "free space on containerd's volume" : "see containerd's log";
    return new SvcError(code, `${attempted}: ${said}`, { help });
  };
}
