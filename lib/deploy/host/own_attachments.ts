/** The networks that one instance is attached to, and what is in them beside it. */
import type { DeploySpec } from "../../api/deploy_spec.ts";
import type { InstanceStatus } from "../../api/deployment.ts";
import { networkMode } from "./bundle.ts";
import type { Beside } from "./companions.ts";
import type { InstanceParts } from "./instance_parts.ts";
import type { InstanceRecord, MadeRecord, NetworkAttachment } from "./record.ts";

type Parts = Pick<InstanceParts, "attachments" | "namespaces" | "companions" | "log">;

/** Calls come one after the other. */
export class OwnAttachments {
  #parts: Parts;
  #made: Readonly<MadeRecord>;
  #spec: DeploySpec;
  #networks: NetworkAttachment[];

  constructor(
    parts: Parts,
    made: Readonly<MadeRecord>,
    { networks }: Pick<InstanceRecord, "networks">,
    spec: DeploySpec,
  ) {
    this.#parts = parts;
    this.#made = made;
    this.#spec = spec;
    this.#networks = networks;
  }

  get networks(): NetworkAttachment[] {
    return this.#networks;
  }

  /** Its part of the instance's record. */
  get record(): Pick<InstanceRecord, "networks"> {
    return { networks: this.#networks };
  }

  /** Makes the namespace with its networks; `ready` is called once the namespace exists. */
  async connect(ready = () => {}, signal?: AbortSignal): Promise<void> {
    this.#networks = await this.#parts.attachments.make(this.#made, ready, signal);
  }

  /** Makes them again where they are gone, as after a reboot. True where they were. */
  async renew(): Promise<boolean> {
    if (await this.#parts.attachments.exists(this.#made)) return false;
    await this.disconnect();
    await this.connect();
    return true;
  }

  get #beside(): Beside {
    const { key, replica, roles } = this.#made;
    const { name: deployment } = this.#spec;
    const network = networkMode({
      made: this.#made,
      netns: this.#parts.attachments.path(this.#made),
    });
    return { ...{ key, replica, roles, deployment, network }, id: `${deployment}-${replica}` };
  }

  /** Its part of the instance's status. */
  get status(): Pick<InstanceStatus, "companion"> {
    return this.#parts.companions?.statusOf(this.#made) ?? {};
  }

  /** Starts what svc runs beside the workload, before the workload's process. */
  async enter(): Promise<void> {
    const { choice, key } = this.#made;
    if (choice.kind !== "bridges") return;
    const { attachments, namespaces } = this.#parts;
    const { deployment, id: instance } = this.#beside;
    const path = attachments.path(this.#made);
    await namespaces.opened({ deployment, spec: this.#spec, instance, key, path });
  }

  /** Starts its companion, once it has its networks and before its container is made, which may have its mounts. */
  async accompany(options: { signal?: AbortSignal; late?: boolean } = {}): Promise<void> {
    await this.#parts.companions?.begin(this.#beside, options);
  }

  /**
   * As {@linkcode enter}, beside a workload that runs, which may have taken the port meanwhile: it goes on
   * without what should run beside it.
   */
  async enterLate(): Promise<void> {
    try {
      await this.accompany({ late: true });
      await this.enter();
    } catch (error) {
      const { key } = this.#made;
      this.#parts.log.error("nothing runs beside an instance that should have it", { key, error });
    }
  }

  /** The instance was stopped: so is its companion, unless it has mounts for the next start. */
  async rest(): Promise<void> {
    const { key, companionMounts } = this.#made;
    if (!companionMounts) await this.#parts.companions?.stop(key);
  }

  /** The server ends; the companion goes on. */
  release(): void {
    this.#parts.companions?.release(this.#made.key);
  }

  /** As {@linkcode disconnect}, for good. */
  async remove(): Promise<void> {
    await this.#parts.companions?.remove(this.#made.key);
    await this.disconnect();
  }

  /** Removes them and the namespace. Idempotent. */
  async disconnect(): Promise<void> {
    await this.#parts.companions?.stop(this.#made.key);
    await this.#parts.namespaces.closed(this.#made.key);
    await this.#parts.attachments.remove(this.#made, this.#networks);
    this.#networks = [];
  }
}
