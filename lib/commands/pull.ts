/** `svc pull SOURCE [DEST]`: an image into the server's registry, a folder or an archive. */
import { SvcError } from "../base/errors.ts";
import type { Invocation } from "./command.ts";
import type { Reporter } from "./transfer/events.ts";
import type { PULL_OPTIONS } from "./transfer/options.ts";
import { parsePlace, type Place } from "../transfer/place.ts";
import { transfer } from "./transfer/run.ts";

/** `reporter`: is told of the transfer in place of the person. */
export async function run(
  invocation: Invocation<typeof PULL_OPTIONS>,
  reporter?: Reporter,
): Promise<number> {
  const { positionals, values } = invocation;
  const source = parsePlace(positionals[0]);
  let destination: Place | undefined;
  if (positionals[1] !== undefined) destination = parsePlace(positionals[1]);
  if (values.out !== undefined) {
    if (destination) {
      throw new SvcError("usage", "Cannot pull: -o and a destination name two places to write to");
    }
    // The whole value is the path, as with docker save.
    destination = { kind: "docker-archive", path: values.out };
  }
  return await transfer({ source, ...(destination && { destination }) }, invocation, reporter);
}
