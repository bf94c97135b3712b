/** The abilities of engines that speak the Docker Engine API, besides exec and images. */
import type { DeployCaps } from "../../../../../lib/deploy/caps.ts";
import { attachAbility, dockerAttach } from "./attach.ts";
import { controlAbilities } from "./control.ts";
import { EngineFiles } from "./files.ts";
import { networksAbility, volumesAbility } from "./managed.ts";
import type { AbilityParts } from "./parts.ts";
import { statsAbility } from "./stats.ts";
import { updateAbility } from "./update.ts";

export function engineAbilities(parts: AbilityParts): DeployCaps {
  return {
    ...controlAbilities(parts),
    ...!parts.behaviour.fixedRestarts && { update: updateAbility(parts) },
    attach: attachAbility({ ...parts, calls: dockerAttach(parts) }),
    files: new EngineFiles(parts),
    stats: statsAbility(parts),
    volumes: volumesAbility(parts),
    networks: networksAbility(parts),
  };
}
