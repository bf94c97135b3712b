/** The names of deployments and instances on their networks, which the bridges' own resolvers answer for. */
import type { Logger } from "../../../lib/base/log.ts";
import { type Named, namesOn } from "../../../lib/deploy/host/names.ts";
import type { Deployment } from "../shared/engine_api/deployment.ts";
import { isReady, runs } from "../shared/engine_api/inspect.ts";
import type { EngineNetworks } from "../shared/engine_api/networks.ts";
import { instanceId } from "../shared/engine_api/record.ts";
import { RESOLVER } from "./networks.ts";
import { type IncusPlace, interfaceName } from "./place.ts";

/** Milliseconds in which changes are gathered: each write starts the bridge's resolver again. */
const GATHER_MS = 50;
/** Seconds that an answer may be kept. */
const TTL = 1;

export interface NamesOptions {
  place: IncusPlace;
  networks: EngineNetworks;
  deployments: () => Iterable<Deployment>;
  log: Logger;
}

export class Names {
  readonly #options: NamesOptions;
  /** What was written, by network. */
  readonly #written = new Map<string, string>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(options: NamesOptions) {
    this.#options = options;
  }

  /** Instances may have changed. */
  changed(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#options.place.networkLock.run(() => this.#write()).catch((error) =>
        this.#options.log.warn("names do not lead where they should", { error })
      );
    }, GATHER_MS);
  }

  async close(): Promise<void> {
    clearTimeout(this.#timer);
    await this.#options.place.networkLock.run(() => Promise.resolve());
  }

  #instances(): Named[] {
    const { networks, place } = this.#options;
    return [...this.#options.deployments()].flatMap((deployment) => {
      const { name, record: { spec } } = deployment;
      const asked = new Map(spec.networks.flatMap((one) =>
        networks.namesOf({ networks: [one] })
          .map((name) => [interfaceName(place.server, name), one.aliases ?? []] as const)
      ));
      return deployment.instances.map(({ instance: { replica }, found }): Named => ({
        id: instanceId(name, replica),
        deployment: name,
        made: {},
        networks: Object.entries(found?.NetworkSettings.Networks ?? {}).map(
          ([name, { IPAddress: ip }]) => ({
            network: { name },
            ip,
            aliases: asked.get(name) ?? [],
          }),
        ),
        leaving: false,
        standing: !found || !runs(found) ? undefined : isReady(found) ? "ready" : "running",
      }));
    });
  }

  async #write(): Promise<void> {
    const { place: { client }, networks } = this.#options;
    const all = this.#instances();
    for (const { Id } of await networks.list()) {
      const records = namesOn(Id, all).filter(({ ip }) => ip)
        .flatMap(({ names, ip }) => names.map((name) => `host-record=${name},${ip},${TTL}`));
      const text = [RESOLVER, ...records.sort()].join("\n");
      if (text === (this.#written.get(Id) ?? RESOLVER)) continue;
      await client.change({
        method: "PATCH",
        path: `/networks/${Id}`,
        json: { config: { "raw.dnsmasq": text } },
        attempted: `Cannot set the names of network ${Id}`,
      });
      this.#written.set(Id, text);
    }
  }
}
