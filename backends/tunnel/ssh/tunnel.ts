/** A reverse tunnel that connects again when its connection drops. */
import { asSvcError, type SvcError } from "../../../lib/base/errors.ts";
import { sleep } from "../../../lib/base/sleep.ts";
import type { Logger } from "../../../lib/base/log.ts";
import type { OpenTunnel, TunnelRequest } from "../../../lib/tunnel/tunnel.ts";
import { templateUrl } from "../../../lib/tunnel/url.ts";
import type { ParsedKey } from "../../../lib/wire/ssh/private_key.ts";
import { type Forward, openForward } from "./forward.ts";
import { shown, type SshTarget } from "./target.ts";

/** Waiting times, in milliseconds. */
export interface Patience {
  /** Before the first attempt to reconnect; doubled before each further one. */
  first: number;
  most: number;
  /** Without a connection for this long, the tunnel is given up. */
  whole: number;
}

const PATIENCE: Patience = { first: 250, most: 30_000, whole: 15 * 60_000 };

/** True for an error that another attempt would meet again. */
const isFinal = ({ code, detail }: SvcError) =>
  code === "prerequisite_missing" || detail?.refused !== undefined;

export interface SshTunnelOptions {
  target: SshTarget;
  key?: ParsedKey;
  request: TunnelRequest;
  log: Logger;
  patience?: Patience;
}

export class SshTunnel implements OpenTunnel {
  readonly url: string;
  readonly closed: Promise<SvcError | undefined>;
  readonly #options: SshTunnelOptions;
  readonly #disposed = new AbortController();
  #forward: Forward;

  private constructor(options: SshTunnelOptions, forward: Forward) {
    this.#options = options;
    this.#forward = forward;
    this.url = this.#urlOf(forward);
    this.closed = this.#keep();
  }

  static async open(options: SshTunnelOptions, signal: AbortSignal): Promise<SshTunnel> {
    return new SshTunnel(options, await forwardOf(options, undefined, signal));
  }

  #urlOf({ port, url }: Forward): string {
    const { target: { bind, host, urlTemplate }, request: { name, protocol } } = this.#options;
    const bindHost = bind.host === "" ? undefined : bind.host;
    return url ?? templateUrl(urlTemplate, { bindHost, serverHost: host, port, name, protocol });
  }

  /** Keeps the tunnel until it is disposed of, or until reconnecting fails: gives the reason then. */
  async #keep(): Promise<SvcError | undefined> {
    const { request: { onChange }, target, log } = this.#options;
    for (;;) {
      const why = await this.#forward.closed;
      if (this.#disposed.signal.aborted) return undefined;
      log.warn("a tunnel's connection broke", { server: shown(target), error: why });
      onChange?.({ state: "down", reason: why.message });
      try {
        this.#forward = await this.#again();
      } catch (error) {
        return this.#disposed.signal.aborted ? undefined : asSvcError(error);
      }
      if (this.#disposed.signal.aborted) {
        this.#forward.close();
        return undefined;
      }
      log.info("a tunnel is connected again", { server: shown(target) });
      onChange?.({ state: "up", url: this.#urlOf(this.#forward) });
    }
  }

  /** Reconnects. Throws the reason for giving up. */
  async #again(): Promise<Forward> {
    const { patience = PATIENCE, target, log } = this.#options;
    const { signal } = this.#disposed;
    const since = performance.now();
    let pause = patience.first;
    // Asks again for the port that the server chose, so that the URL stays the same.
    let port: number | undefined = this.#forward.port;
    for (;;) {
      // Random, so that many tunnels of a restarted server do not reconnect together.
      await sleep(pause * (0.5 + Math.random() / 2), signal);
      try {
        return await forwardOf(this.#options, port, signal);
      } catch (error) {
        signal.throwIfAborted();
        const known = asSvcError(error);
        log.debug("a tunnel is not connected yet", { server: shown(target), error: known });
        const tooLong = performance.now() - since + pause > patience.whole;
        if (isFinal(known) || tooLong) throw known;
        if (known.code === "port_in_use" && target.bind.port === 0) port = undefined;
      }
      pause = Math.min(pause * 2, patience.most);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#disposed.abort(new DOMException("the tunnel was closed", "AbortError"));
    this.#forward.close();
    await this.closed;
  }
}

function forwardOf(
  { target, key, request }: SshTunnelOptions,
  port: number | undefined,
  signal: AbortSignal,
): Promise<Forward> {
  return openForward({
    target,
    ...(port !== undefined && { port }),
    ...(key && { key }),
    onVisitor: request.accept,
    signal,
  });
}
