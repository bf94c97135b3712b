/** `svc version`: needs no server. */
import { buildInfo } from "../base/build_info.ts";
import type { Invocation } from "./command.ts";
import type { VERSION_OPTIONS } from "./options.ts";

export async function run({ io, values }: Invocation<typeof VERSION_OPTIONS>): Promise<number> {
  if (values.licenses) {
    const page = await import("../../docs/reference/licenses.md", { with: { type: "text" } });
    await io.stdout.write(page.default.replace(/^<!--.*-->\n+/, ""));
    return 0;
  }
  const { version, commit, dirty, form, tags } = buildInfo();
  const deno = Deno.version.deno;
  if (values.output === "json") {
    await io.stdout.write(JSON.stringify({ version, commit, dirty, form, tags, deno }) + "\n");
    return 0;
  }
  const checkout = commit ? commit + (dirty ? " with changes" : "") : "unknown";
  await io.stdout.write(
    `svc ${version}\n` +
      `commit: ${checkout}\nform: ${form}\nbuild tags: ${
        tags.join(", ") || "none"
      }\ndeno: ${deno}\n`,
  );
  return 0;
}
