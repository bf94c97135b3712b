/**
 * What svc runs in the network namespaces of workloads: listeners of the server, in the place of a companion.
 * Engines tell when an instance's namespace is there and when it goes; services attend the namespaces of a
 * deployment. Either may come first: a server that starts finds instances that run.
 */

import type { DeploySpec } from "../api/deploy_spec.ts";

export interface WorkloadNamespace {
  deployment: string;
  /** That the instance was made from: while a roll-out goes on, old and new instances differ. */
  spec: DeploySpec;
  /** "web-0" */
  instance: string;
  /** Unique to the instance's container. */
  key: string;
  /** The namespace's file. */
  path: string;
}

/** Runs something in a namespace; disposed of when the namespace goes, or nobody attends it any more. */
export type EnterNamespace = (
  namespace: WorkloadNamespace,
) => Promise<AsyncDisposable | undefined> | AsyncDisposable | undefined;

interface Attendant {
  /** Absent: of all deployments. */
  deployment?: string;
  enter: EnterNamespace;
  /** By key. */
  inside: Map<string, Promise<AsyncDisposable | undefined>>;
}

const attends = ({ deployment }: Attendant, namespace: WorkloadNamespace) =>
  deployment === undefined || deployment === namespace.deployment;

export class WorkloadNamespaces {
  readonly #open = new Map<string, WorkloadNamespace>();
  readonly #attendants = new Set<Attendant>();
  readonly #failed: (namespace: WorkloadNamespace, error: unknown) => void;

  /** `failed` is called where something could not be run in a namespace that was open before. */
  constructor(failed: (namespace: WorkloadNamespace, error: unknown) => void) {
    this.#failed = failed;
  }

  /**
   * Has `enter` called for every namespace of the deployment's instances, those that are open and those to come,
   * once each. When the result is disposed of, everything that it made is.
   */
  attend(deployment: string, enter: EnterNamespace): AsyncDisposable {
    return this.#attend({ deployment, enter, inside: new Map() });
  }

  /** As {@linkcode attend}, for the instances of every deployment. */
  attendAll(enter: EnterNamespace): AsyncDisposable {
    return this.#attend({ enter, inside: new Map() });
  }

  #attend(attendant: Attendant): AsyncDisposable {
    this.#attendants.add(attendant);
    for (const namespace of this.#open.values()) {
      if (!attends(attendant, namespace)) continue;
      this.#enter(attendant, namespace).catch((error) => this.#failed(namespace, error));
    }
    return {
      [Symbol.asyncDispose]: async () => {
        this.#attendants.delete(attendant);
        await Promise.all([...attendant.inside.keys()].map((key) => leave(attendant, key)));
      },
    };
  }

  async #enter(attendant: Attendant, namespace: WorkloadNamespace): Promise<void> {
    const { key } = namespace;
    const known = attendant.inside.get(key);
    if (known) return void await known;
    const entering = (async () => await attendant.enter(namespace))();
    attendant.inside.set(key, entering);
    try {
      await entering;
    } catch (error) {
      attendant.inside.delete(key);
      throw error;
    }
  }

  /**
   * For engines: the namespace is there. Call it before the instance's process starts, where the engine can: it
   * resolves when everything runs in it, and throws where something cannot. Idempotent.
   */
  async opened(namespace: WorkloadNamespace): Promise<void> {
    this.#open.set(namespace.key, namespace);
    const attending = [...this.#attendants].filter((one) => attends(one, namespace));
    await Promise.all(attending.map((attendant) => this.#enter(attendant, namespace)));
  }

  /** For engines: the namespace goes. What runs in it has ended when this resolves. Idempotent. */
  async closed(key: string): Promise<void> {
    this.#open.delete(key);
    await Promise.all([...this.#attendants].map((attendant) => leave(attendant, key)));
  }
}

async function leave({ inside }: Attendant, key: string): Promise<void> {
  const entering = inside.get(key);
  inside.delete(key);
  await (await entering?.catch(() => undefined))?.[Symbol.asyncDispose]();
}
