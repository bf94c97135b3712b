/** `svc compose version`. */
import { buildInfo } from "../../base/build_info.ts";
import { SvcError } from "../../base/errors.ts";
import type { Invocation } from "../command.ts";
import type { ProjectInvocation } from "./open_project.ts";
import type { VERSION_OPTIONS } from "./options.ts";

export async function run(
  { values, io }: ProjectInvocation & Invocation<typeof VERSION_OPTIONS>,
): Promise<number> {
  const { version } = buildInfo();
  const format = values.format ?? (values.output === "json" ? "json" : "pretty");
  if (!["pretty", "json"].includes(format)) {
    throw new SvcError("usage", `Cannot read --format ${format}: write pretty or json`);
  }
  const text = values.short
    ? version
    : format === "json"
    ? JSON.stringify({ version })
    : `svc compose version ${version}`;
  await io.stdout.write(`${text}\n`);
  return 0;
}
