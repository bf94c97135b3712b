/** docs/reference/errors.md, from the error catalogue. */
import { CATALOGUE } from "../../lib/base/errors.ts";
import { cell, code, table } from "./markdown.ts";

export function errorsPage(): string {
  const rows = Object.entries(CATALOGUE).map(([name, entry]) => {
    const { status, exit, help, oci }: {
      status: number;
      exit: number;
      help: string;
      oci?: string;
    } = entry;
    return [code(name), String(status), String(exit), oci ? code(oci) : "", cell(help)];
  });
  return "# Errors\n\n" +
    "Under `/.svc/v1` an error is a problem document (RFC 9457, `application/problem+json`) whose " +
    "`code` is one of these; `detail` says what was attempted and what stood in the way, `help` what " +
    "to do. Under `/v2` it is the JSON of the OCI Distribution Specification, with the code of the " +
    "fourth column. A command that fails prints the same text and ends with the exit code.\n\n" +
    table(["code", "HTTP status", "exit code", "registry code", "what to do"], rows);
}
