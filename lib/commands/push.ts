/** `svc push SOURCE DEST`: an image from anywhere to anywhere. */
import type { Invocation } from "./command.ts";
import type { PUSH_OPTIONS } from "./transfer/options.ts";
import { parsePlace } from "../transfer/place.ts";
import { transfer } from "./transfer/run.ts";

export async function run(invocation: Invocation<typeof PUSH_OPTIONS>): Promise<number> {
  const [source, destination] = invocation.positionals.map(parsePlace);
  return await transfer({ source, destination }, invocation);
}
