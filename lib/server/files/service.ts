/** Files that a caller sends with its deployment: kept on this host, and mounted into each instance. */
import type { DeploySpec } from "../../api/deploy_spec.ts";
import { requireFreeTargets } from "../../deploy/mounts/service.ts";
import type { Claim, DeployRequest, DeployService } from "../../deploy/services.ts";
import type { KeptFiles, KeptSet } from "./kept_files.ts";

export class DeliveredFileService implements DeployService {
  readonly name = "files";
  readonly #kept: KeptFiles;

  constructor(kept: KeptFiles) {
    this.#kept = kept;
  }

  claim(spec: DeploySpec, { files = [] }: DeployRequest): Claim {
    const { name } = spec;
    requireFreeTargets(spec, files, "Cannot deliver a file");
    let applied = false;
    let set: KeptSet | undefined;
    return {
      contribute: async () => {
        applied = true;
        if (files.length === 0) return {};
        set = await this.#kept.put(name, files);
        return {
          mounts: files.map(({ target }, index) => (
            { source: set!.path(index), target, readOnly: true }
          )),
        };
      },
      // A deployment that an earlier server applied keeps what it has.
      commit: async () => {
        if (applied) await this.#kept.keepOnly(name, set);
      },
      release: async () => {
        if (set) await this.#kept.drop(name, set);
      },
    };
  }

  removed(name: string): Promise<void> {
    return this.#kept.keepOnly(name, undefined);
  }
}
