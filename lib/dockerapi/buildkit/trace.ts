/** A build's events as BuildKit tells them: vertexes, their output and their transfers. */
import type { BuildEvent } from "../../api/build.ts";
import { createHash } from "../../base/hash.ts";
import type { StatusResponse, Time, VertexMessage } from "./control_api.ts";

const encoder = new TextEncoder();

export function timeOf(): Time {
  const ms = Date.now();
  return { seconds: Math.floor(ms / 1000), nanos: Math.floor(ms % 1000) * 1e6 };
}

/** Makes messages of one build. */
export class Trace {
  readonly #vertices = new Map<string, VertexMessage>();
  readonly #transfers = new Map<string, Time>();
  readonly #ref: string;

  constructor(ref: string) {
    this.#ref = ref;
  }

  /** Undefined where the event is nothing that clients are told. */
  message(event: BuildEvent): StatusResponse | undefined {
    if (event.type === "warning") {
      const [first] = this.#vertices.values();
      if (!first) return undefined;
      const short = encoder.encode(
        event.line ? `line ${event.line}: ${event.message}` : event.message,
      );
      return { warnings: [{ vertex: first.digest, level: 1, short }] };
    }
    if (event.type === "queued") {
      const id = "queue";
      const name = `[internal] waiting for other builds (place ${event.place})`;
      return { vertexes: [this.#change(id, { name, started: timeOf(), completed: timeOf() })] };
    }
    if (!("id" in event)) return undefined;
    return this.#ofVertex(event);
  }

  #ofVertex(event: BuildEvent & { id: string }): StatusResponse | undefined {
    const { id } = event;
    const changed = (change: Partial<VertexMessage>) => ({ vertexes: [this.#change(id, change)] });
    const now = timeOf();
    switch (event.type) {
      case "vertex":
        return changed({ name: event.name });
      case "start":
        return changed({ started: now });
      case "cached":
        return changed({ started: now, completed: now, cached: true });
      case "done":
      case "failed": {
        const started = this.#vertices.get(id)?.started ?? now;
        const error = event.type === "failed" ? { error: event.message } : {};
        return changed({ started, completed: now, ...error });
      }
      case "output": {
        const stream = event.stream === "stderr" ? 2 : 1;
        const { digest: vertex } = this.#change(id, {});
        const msg = encoder.encode(event.text);
        return { logs: [{ vertex, timestamp: now, stream, msg }] };
      }
      case "progress":
        return this.#transfer(event);
    }
  }

  #transfer({ id, label, current, total = 0 }: BuildEvent & { type: "progress" }): StatusResponse {
    const { digest: vertex } = this.#change(id, {});
    const key = `${id} ${label}`;
    const now = timeOf();
    const started = this.#transfers.get(key) ?? now;
    this.#transfers.set(key, started);
    const over = total > 0 && current >= total;
    return {
      statuses: [{
        ...{ id: label, vertex, name: label, current, total, timestamp: now, started },
        ...over && { completed: now },
      }],
    };
  }

  #change(id: string, change: Partial<VertexMessage>): VertexMessage {
    const known = this.#vertices.get(id) ?? {
      digest: `sha256:${createHash("sha256").update(`${this.#ref} ${id}`).digest("hex")}`,
      name: id,
    };
    const vertex = { ...known, ...change };
    this.#vertices.set(id, vertex);
    return vertex;
  }
}
