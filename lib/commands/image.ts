/** `svc image agent [DEST]`: the image of companions, made of the running executable alone. */
import { buildInfo } from "../base/build_info.ts";
import { SvcError } from "../base/errors.ts";
import type { Invocation } from "./command.ts";
import type { PUSH_OPTIONS } from "./transfer/options.ts";
import { parsePlace } from "../transfer/place.ts";
import { transfer } from "./transfer/run.ts";

export async function run(invocation: Invocation<typeof PUSH_OPTIONS>): Promise<number> {
  const { version } = buildInfo();
  const [what, destination = `svc-agent:${version}`] = invocation.positionals;
  if (what !== "agent") {
    throw new SvcError("usage", `Cannot run image: unknown image ${JSON.stringify(what)}`, {
      help: "the image that svc makes is agent: svc image agent",
    });
  }
  const place = parsePlace(destination);
  const { writeAgentLayout } = await import("./image/layout.ts");
  const folder = await Deno.makeTempDir({ prefix: "svc-image-" });
  try {
    await writeAgentLayout(folder, version, invocation.io.signal);
    const source = parsePlace(`oci:${folder}:${version}`);
    return await transfer({ source, destination: place }, invocation);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}
