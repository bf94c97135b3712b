/** All deployments of the host, with their ports and networks. */
import type { PublishedPort } from "../../api/deployment.ts";
import { SvcError } from "../../base/errors.ts";
import { Mutex } from "../../base/mutex.ts";
import type { Deployment } from "./deployment.ts";
import type { Instance } from "./instance.ts";
import type { NetworkChoice } from "./record.ts";

/** A port that another deployment holds. */
export interface TakenPort {
  port: PublishedPort;
  by: string;
}

export class Deployments {
  #all = new Map<string, Deployment>();
  #choosing = new Mutex();

  get all(): Deployment[] {
    return [...this.#all.values()];
  }

  get instances(): Instance[] {
    return this.all.flatMap(({ instances }) => instances);
  }

  get(name: string): Deployment | undefined {
    return this.#all.get(name);
  }

  /** Throws `not_found`. */
  require(name: string): Deployment {
    const deployment = this.#all.get(name);
    if (deployment) return deployment;
    throw new SvcError("not_found", `Cannot find deployment ${name}: there is none of that name`, {
      help: "`svc ps` lists the deployments",
    });
  }

  set(deployment: Deployment): void {
    this.#all.set(deployment.name, deployment);
  }

  remove(name: string): void {
    this.#all.delete(name);
  }

  /**
   * Runs `work` alone, since choosing ports and taking them must be one step for all deployments. `work` gets
   * the ports that deployments other than `name` hold.
   */
  reserve<T>(name: string, work: (taken: TakenPort[]) => Promise<T>): Promise<T> {
    return this.#choosing.run(() =>
      work(
        this.#others(name).flatMap(({ name: by, published }) =>
          published.map((port) => ({ port, by }))
        ),
      )
    );
  }

  /** The networks of all instances, and separately those of deployments other than `name`. */
  choices(name: string): { users: NetworkChoice[]; others: NetworkChoice[] } {
    const of = (instances: readonly Instance[]) => instances.map(({ made }) => made.choice);
    return {
      users: of(this.instances),
      others: of(this.#others(name).flatMap(({ instances }) => instances)),
    };
  }

  #others(name: string): Deployment[] {
    return this.all.filter((deployment) => deployment.name !== name);
  }
}
