/** The ports of containers on this machine, where the server is another one. */
import type { PublishedPort } from "../../api/deployment.ts";
import { servicesOf } from "../../client/forward.ts";
import { forwardPort } from "../../client/conduit/port_forward.ts";
import type { ApiBase } from "../base.ts";
import type { ContainerRecord } from "./record.ts";
import { publishedOf } from "./spec.ts";

interface Held extends AsyncDisposable {
  ports: PublishedPort[];
}

/** docker publishes on every address; -p 127.0.0.1:… says otherwise. */
const EVERYWHERE = "0.0.0.0";

export class ForwardedPorts {
  readonly #api: ApiBase;
  readonly #held = new Map<string, Promise<Held>>();
  readonly #shown = new Map<string, PublishedPort[]>();

  constructor(api: ApiBase) {
    this.#api = api;
  }

  /** Those that answer now. */
  of(id: string): readonly PublishedPort[] {
    return this.#shown.get(id) ?? [];
  }

  /** Opens the container's ports. Throws `port_in_use`; then none is open. Idempotent. */
  async open(record: ContainerRecord): Promise<void> {
    if (this.#api.isLocal || this.#held.has(record.id)) return;
    const opening = this.#open(record);
    this.#held.set(record.id, opening);
    try {
      this.#shown.set(record.id, (await opening).ports);
    } catch (error) {
      this.#held.delete(record.id);
      throw error;
    }
  }

  async #open({ deployment, hostConfig, config }: ContainerRecord): Promise<Held> {
    await using opened = new AsyncDisposableStack();
    const services = servicesOf(this.#api.client(this.#api.signal));
    const ports: PublishedPort[] = [];
    for (const { host = 0, container, protocol, hostIP } of publishedOf(hostConfig, config)) {
      if (protocol === "sctp") {
        this.#api.warn(`port ${container}/sctp of ${deployment} is not forwarded: tcp and udp are`);
        continue;
      }
      const address = hostIP ?? EVERYWHERE;
      const forward = opened.use(
        await forwardPort({
          ...{ services, name: deployment, port: container, protocol, address, local: host },
          onError: ({ message }) => this.#api.warn(`${deployment} ${container}: ${message}`),
        }),
      );
      ports.push({ hostIP: address, host: forward.local, container, protocol });
    }
    const kept = opened.move();
    return { ports, [Symbol.asyncDispose]: () => kept.disposeAsync() };
  }

  async close(id: string): Promise<void> {
    const held = this.#held.get(id);
    this.#held.delete(id);
    this.#shown.delete(id);
    await (await held?.catch(() => undefined))?.[Symbol.asyncDispose]();
  }

  async closeAll(): Promise<void> {
    await Promise.all([...this.#held.keys()].map((id) => this.close(id)));
  }
}
