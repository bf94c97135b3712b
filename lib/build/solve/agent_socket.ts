/** A step's unix socket that is connected to the caller's SSH agent. */
import type { AgentSource } from "../inputs.ts";

export class AgentSocket implements AsyncDisposable {
  #listener: Deno.UnixListener;
  #abort = new AbortController();
  #work = new Set<Promise<void>>();
  #connections = new Set<Deno.UnixConn>();

  private constructor(
    readonly path: string,
    readonly source: AgentSource,
    readonly id: string,
    signal: AbortSignal,
  ) {
    this.#listener = Deno.listen({ transport: "unix", path });
    const both = AbortSignal.any([signal, this.#abort.signal]);
    this.#keep(this.#accept(both));
  }

  /** `path` must not exist, and be short enough for a socket (some 100 bytes). */
  static listen(path: string, source: AgentSource, id: string, signal: AbortSignal): AgentSocket {
    return new AgentSocket(path, source, id, signal);
  }

  #keep(work: Promise<void>): void {
    const quiet = work.catch(() => {}).finally(() => this.#work.delete(quiet));
    this.#work.add(quiet);
  }

  async #accept(signal: AbortSignal): Promise<void> {
    for await (const connection of this.#listener) {
      this.#connections.add(connection);
      this.#keep(this.#relay(connection, signal));
    }
  }

  /** Relays until either side ends. The step's program sees a failure of the agent as a closed socket. */
  async #relay(connection: Deno.UnixConn, signal: AbortSignal): Promise<void> {
    try {
      await using agent = await this.source.connect(this.id, signal);
      const ended = { signal, preventCancel: false };
      await Promise.race([
        connection.readable.pipeTo(agent.writable, ended),
        agent.readable.pipeTo(connection.writable, ended),
      ]);
    } finally {
      this.#connections.delete(connection);
      try {
        connection.close();
      } catch {
        // the streams have closed the connection
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    this.#abort.abort();
    for (const connection of this.#connections) {
      try {
        connection.close();
      } catch {
        // the streams have closed the connection
      }
    }
    await Promise.all(this.#work);
  }
}
