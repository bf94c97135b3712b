/** Attaches to instances: a console has one reader, which records it and passes it on. */
import { SvcError } from "../../../lib/base/errors.ts";
import type { AttachCalls, AttachPlace } from "../shared/engine_api/abilities/attach.ts";
import type { IncusSource } from "./source.ts";

export function attachCalls(source: IncusSource): AttachCalls {
  const recorder = ({ id, container }: AttachPlace) => {
    const keeper = source.keeper(container);
    if (keeper) return keeper.recorder;
    throw new SvcError("not_found", `Cannot attach to ${id}: it is gone`);
  };
  return {
    // Both streams of an instance are its console.
    oneOutput: true,
    connect: (place) => recorder(place).attach(!place.tty),
  };
}
