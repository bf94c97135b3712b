/** The networks that one instance is attached to. */
import type { DeploySpec } from "../../api/deploy_spec.ts";
import type { InstanceParts } from "./instance_parts.ts";
import type { InstanceRecord, MadeRecord, NetworkAttachment } from "./record.ts";

type Parts = Pick<InstanceParts, "attachments" | "namespaces" | "log">;

/** Calls come one after the other. */
export class OwnAttachments {
  #parts: Parts;
  #made: Readonly<MadeRecord>;
  #spec: DeploySpec;
  #networks: NetworkAttachment[];
  #mapped: boolean;

  constructor(
    parts: Parts,
    made: Readonly<MadeRecord>,
    { networks, published }: Pick<InstanceRecord, "networks" | "published">,
    spec: DeploySpec,
  ) {
    this.#parts = parts;
    this.#made = made;
    this.#spec = spec;
    this.#networks = networks;
    this.#mapped = published === true;
  }

  get networks(): NetworkAttachment[] {
    return this.#networks;
  }

  /** Its part of the instance's record. */
  get record(): Pick<InstanceRecord, "networks" | "published"> {
    return { networks: this.#networks, ...(this.#mapped && { published: true }) };
  }

  /** Makes the namespace with its networks; `ready` is called once the namespace exists. */
  async connect(ready = () => {}, signal?: AbortSignal): Promise<void> {
    this.#networks = await this.#parts.attachments.make(this.#made, ready, signal);
  }

  /** Starts what svc runs beside the workload, before the workload's process. */
  async enter(): Promise<void> {
    const { choice, key, replica } = this.#made;
    if (choice.kind !== "bridges") return;
    const { attachments, namespaces } = this.#parts;
    const { name: deployment } = this.#spec;
    const instance = `${deployment}-${replica}`;
    const path = attachments.path(this.#made);
    await namespaces.opened({ deployment, spec: this.#spec, instance, key, path });
  }

  /**
   * As {@linkcode enter}, beside a workload that runs, which may have taken the port meanwhile: it goes on
   * without what should run beside it.
   */
  async enterLate(): Promise<void> {
    try {
      await this.enter();
    } catch (error) {
      const { key } = this.#made;
      this.#parts.log.error("nothing runs beside an instance that should have it", { key, error });
    }
  }

  /** Removes them and the namespace. Idempotent. */
  async disconnect(): Promise<void> {
    await this.unmap();
    await this.#parts.namespaces.closed(this.#made.key);
    await this.#parts.attachments.remove(this.#made, this.#networks);
    this.#networks = [];
  }

  /** Removes the portmap plugin's rules, which the server's own rules replace. True where there were any. */
  async unmap(): Promise<boolean> {
    if (!this.#mapped) return false;
    await this.#parts.attachments.unmap(this.#made, this.#networks);
    this.#mapped = false;
    return true;
  }
}
