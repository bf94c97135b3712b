/** Names of the running deployments; the server is asked again only when its last answer is old. */
import type { DeploymentStatus } from "../../api/deployment.ts";
import { asSvcError, SvcError } from "../../base/errors.ts";
import type { Services } from "./services.ts";

const UP = new Set(["running", "healthy"]);

const isLive = ({ state, instances }: DeploymentStatus) =>
  state === "running" || instances.some((instance) => UP.has(instance.state));

export interface LiveNamesOptions {
  /** Milliseconds that an answer is used for; also a failure. */
  keepMs: number;
  /** Milliseconds that the server may take to answer. */
  waitMs: number;
  warn: (text: string) => void;
}

export class LiveNames {
  readonly #services: Pick<Services, "list">;
  readonly #options: LiveNamesOptions;
  #asking?: Promise<ReadonlySet<string>>;
  #known?: { names: ReadonlySet<string>; until: number };
  #failing = false;

  constructor(services: Pick<Services, "list">, options: LiveNamesOptions) {
    this.#services = services;
    this.#options = options;
  }

  /** False where the server does not answer; a warning is written for the first failure after an answer. */
  async has(name: string): Promise<boolean> {
    if (this.#known && performance.now() < this.#known.until) return this.#known.names.has(name);
    this.#asking ??= this.#ask().finally(() => this.#asking = undefined);
    return (await this.#asking).has(name);
  }

  async #ask(): Promise<ReadonlySet<string>> {
    const { keepMs, warn } = this.#options;
    let names: ReadonlySet<string> = new Set();
    try {
      names = new Set((await this.#list()).filter(isLive).map(({ name }) => name));
      this.#failing = false;
    } catch (error) {
      const { message } = asSvcError(error);
      if (!this.#failing) {
        warn(`hosts without a dot are looked up as any other, not as services: ${message}`);
      }
      this.#failing = true;
    }
    this.#known = { names, until: performance.now() + keepMs };
    return names;
  }

  async #list(): Promise<DeploymentStatus[]> {
    const { waitMs } = this.#options;
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(
      () => late.reject(new SvcError("timeout", "Cannot list the deployments: no answer in time")),
      waitMs,
    );
    try {
      return await Promise.race([this.#services.list(), late.promise]);
    } finally {
      clearTimeout(timer);
    }
  }
}
