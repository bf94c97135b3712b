/** The events of the Docker API: whatever has changed is told here, and `docker events` reads them. */

export interface DockerEvent {
  /** "container", "image", "network", "volume", "builder". */
  Type: string;
  /** "create", "start", "pull". */
  Action: string;
  Actor: { ID: string; Attributes: Record<string, string> };
  scope: "local";
  /** Unix seconds. */
  time: number;
  timeNano: number;
  /** Of containers and images only, for older clients. */
  status?: string;
  id?: string;
  from?: string;
}

/** Events that are kept for `since`. */
const KEPT = 1000;

export class EventHub {
  readonly #kept: DockerEvent[] = [];
  readonly #listeners = new Set<(event: DockerEvent) => void>();

  /** Tells an event that happens now. */
  tell(type: string, action: string, id: string, attributes: Record<string, string> = {}): void {
    const now = Date.now();
    const older = type === "container" || type === "image";
    const event: DockerEvent = {
      ...older && { status: action, id, ...attributes.image && { from: attributes.image } },
      Type: type,
      Action: action,
      Actor: { ID: id, Attributes: attributes },
      scope: "local",
      time: Math.floor(now / 1000),
      timeNano: now * 1e6,
    };
    this.#kept.push(event);
    if (this.#kept.length > KEPT) this.#kept.shift();
    for (const listener of [...this.#listeners]) listener(event);
  }

  /** Those that were told since then, oldest first. */
  since(ms: number): DockerEvent[] {
    return this.#kept.filter(({ timeNano }) => timeNano >= ms * 1e6);
  }

  /** Returns a function that ends it. */
  listen(listener: (event: DockerEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }
}
