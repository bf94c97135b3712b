/**
 * The builder's container: made on the first build, adopted by later servers
 * (SPEC "Builder delegation behaviour" 5 and 6).
 */
import { SvcError } from "../../base/errors.ts";
import { sha256 } from "../../base/hash.ts";
import { type Lazy, lazy } from "../../base/lazy.ts";
import type { Logger } from "../../base/log.ts";
import { sleep } from "../../base/sleep.ts";
import { BUILDER } from "../../docker/builder_names.ts";
import type { DockerClient } from "../../docker/client.ts";
import { isRootless } from "../../docker/rootless.ts";
import { daemonStatus } from "../../docker/errors.ts";
import type { BuilderContainer, BuilderPlace } from "../delegation.ts";
import { listenerOwner } from "./listener_owner.ts";
import { lastWords } from "../../docker/last_words.ts";

/** SPEC "Builder delegation behaviour" 5. */
export const CONTAINER = BUILDER;
export const VOLUME = `${BUILDER}-cache`;

/** Where the volume is in the container. */
const DATA = "/var/lib/svc";
/** Where the daemon's socket is in the container. */
export const SOCKET = "/var/run/docker.sock";

/** What the container was made for: another value makes a new container. */
const CONFIG_LABEL = "svc.builder.config";
const PORT_LABEL = "svc.builder.port";
/** Of the volume: no deployment can give it, and so none owns what a privileged builder reads. */
const VOLUME_LABEL = "svc.builder";
/** States of a container that was never started, by the engine. */
const FRESH = new Set(["created", "configured", "initialized"]);
const TOKEN = "SVC_AUTH_TOKEN";

/** Milliseconds until a container that was started answers. The first start unpacks the executable. */
const READY_MS = 120_000;
const POLL_MS = 50;
/** Containers that are made before the start is given up: each has another port. */
const TRIES = 3;

/** The registry mode of the server, which the builder has, too (SPEC "Builder delegation behaviour" 6). */
export type BuilderMode =
  /** The builder has a storage of its own, and pushes. */
  | { kind: "storage" }
  /**
   * The builder loads its images into this server's container engine. `socket` is the engine's on its own host,
   * and `made` another text for each that is there after another; `env` makes the builder use the one that
   * {@linkcode SOCKET} is.
   */
  | { kind: "engine"; socket: string; made: string; env: Readonly<Record<string, string>> };

export interface EngineBuilderOptions {
  engine: DockerClient;
  /** Makes or finds the image, and gives its id; asked once, and again where the image is gone. */
  image: () => Promise<string>;
  /** `network`: in which the builder's loopback address is this server's: "host", or this server's container. */
  place: () => Promise<{ network: string; mode: BuilderMode }>;
  /** Variables of this server that hold for its builds wherever they run. */
  env: Readonly<Record<string, string>>;
  log: Logger;
}

interface Wanted {
  /** By its id: others may give the name to another image. */
  image: string;
  network: string;
  mode: BuilderMode;
  /** A hash of all that the container is made of. */
  config: string;
}

interface Inspected {
  Id: string;
  State: { Status?: string; Running: boolean; ExitCode: number };
  Config: { Env?: string[] | null; Labels?: Record<string, string> | null };
}

/** A container that is there, and how it is reached. */
interface Found {
  id: string;
  running: boolean;
  /** It was never started. */
  fresh: boolean;
  exitCode: number;
  config: string;
  port: number;
  token: string;
}

export class EngineBuilder implements BuilderContainer {
  readonly #options: EngineBuilderOptions;
  #image: Lazy<string>;

  constructor(options: EngineBuilderOptions) {
    this.#options = options;
    this.#image = lazy(options.image);
  }

  async ready(): Promise<void> {
    const { engine } = this.#options;
    const attempted = "Cannot start a builder";
    if (!await isRootless(engine, attempted)) return;
    // Its root may make no bridge in the host's network, and Docker's has another network than the host.
    const why =
      `a container of ${engine.words.product}, which is rootless, could give RUN no network`;
    throw new SvcError("unsupported", `${attempted}: ${why}`, {
      help:
        "start the server with --rootless, which builds without an engine; or use an engine of " +
        "root, or name a builder with SVC_BUILDER_URL",
    });
  }

  async start(): Promise<BuilderPlace> {
    await this.ready();
    const wanted = await this.#wanted();
    let failure: unknown;
    for (let tries = 0; tries < TRIES; tries++) {
      const found = await this.#settle(wanted);
      if (!found) continue;
      try {
        await this.#ready(found);
        return { url: `ws://127.0.0.1:${found.port}`, token: found.token };
      } catch (error) {
        failure = error;
        // Its port may have become somebody else's.
        await this.#remove(found.id);
      }
    }
    throw failure ?? new SvcError("conflict", `Cannot start a builder: others change ${CONTAINER}`);
  }

  async #wanted(): Promise<Wanted> {
    const { place, env } = this.#options;
    const { network, mode } = await place();
    const image = await this.#image.get();
    const config = await sha256(JSON.stringify([image, network, mode, env]));
    return { image, network, mode, config };
  }

  /** The container as it is wanted, running. Undefined: somebody else changed it meanwhile. */
  async #settle(wanted: Wanted): Promise<Found | undefined> {
    const { engine, log } = this.#options;
    const found = await this.#find();
    const fits = found?.config === wanted.config;
    if (found && fits && found.running) return found;
    // Each run has a port and a token of its own: those of one that ended may be known to others by now.
    const kept = found && fits && found.fresh ? found.id : undefined;
    if (found && !fits) {
      log.info("replacing the containerized builder: the server or its registry mode has changed");
    }
    if (found && !kept) await this.#remove(found.id);
    try {
      const id = kept ?? await this.#create(wanted);
      await engine.run({
        method: "POST",
        path: `/containers/${id}/start`,
        attempted: `Cannot start the container ${CONTAINER}`,
        headMs: Infinity,
      });
    } catch (error) {
      const status = daemonStatus(error);
      // Another server made or removed one, or removed the image.
      if (status !== 404 && status !== 409) throw error;
      if (status === 404) this.#image = lazy(this.#options.image);
      return undefined;
    }
    return await this.#find();
  }

  async #find(): Promise<Found | undefined> {
    let found: Inspected;
    try {
      found = await this.#options.engine.json<Inspected>({
        path: `/containers/${CONTAINER}/json`,
        attempted: `Cannot look at the container ${CONTAINER}`,
      });
    } catch (error) {
      if (daemonStatus(error) === 404) return undefined;
      throw error;
    }
    const { Id: id, State, Config } = found;
    const { [CONFIG_LABEL]: config, [PORT_LABEL]: port } = Config.Labels ?? {};
    const token = Config.Env?.find((text) => text.startsWith(`${TOKEN}=`))?.slice(TOKEN.length + 1);
    if (config === undefined || port === undefined || token === undefined) {
      throw new SvcError(
        "conflict",
        `Cannot start a builder: there is a container ${CONTAINER} that no svc server made`,
        { help: "rename or remove it, or name the builder that it is with SVC_BUILDER_URL" },
      );
    }
    const { Status = "", Running: running, ExitCode: exitCode } = State;
    return { id, running, fresh: FRESH.has(Status), exitCode, config, port: Number(port), token };
  }

  /** Throws `conflict` where the volume is somebody else's: its content would become the builder's. */
  async #ensureVolume(): Promise<void> {
    const attempted = `Cannot use the volume ${VOLUME}`;
    // Creating one that is there already gives that one.
    const { Labels } = await this.#options.engine.json<{ Labels?: Record<string, string> | null }>({
      path: "/volumes/create",
      json: { Name: VOLUME, Labels: { [VOLUME_LABEL]: "cache" } },
      attempted,
    });
    if (Labels?.[VOLUME_LABEL] !== undefined) return;
    throw new SvcError("conflict", `${attempted}: no svc server made it for its builder`, {
      help: `remove it: docker volume rm ${VOLUME}`,
    });
  }

  async #create({ image, network, mode, config }: Wanted): Promise<string> {
    await this.#ensureVolume();
    const port = freePort();
    const storage = mode.kind === "storage" ? ["--storage", `${DATA}/registry`] : [];
    const env = {
      ...this.#options.env,
      ...mode.kind === "engine" && mode.env,
      SVC_DATA: DATA,
      // Whoever else is on this host may open the port: without this token nobody builds there as root.
      [TOKEN]: crypto.getRandomValues(new Uint8Array(32)).toHex(),
    };
    const { Id } = await this.#options.engine.json<{ Id: string }>({
      method: "POST",
      path: "/containers/create",
      query: { name: CONTAINER },
      attempted: `Cannot make the container ${CONTAINER}`,
      json: {
        Image: image,
        // An image that SVC_BUILDER_IMAGE names has svc on its path, whatever it begins with.
        Entrypoint: ["svc"],
        Cmd: ["serve", "--addr", `127.0.0.1:${port}`, ...storage],
        Env: Object.entries(env).map(([name, value]) => `${name}=${value}`),
        Labels: { [CONFIG_LABEL]: config, [PORT_LABEL]: String(port) },
        HostConfig: {
          Privileged: true,
          NetworkMode: network,
          // Steps have groups of their own below the host's, and root is the host's, as on any server.
          CgroupnsMode: "host",
          UsernsMode: "host",
          Mounts: [
            { Type: "volume", Source: VOLUME, Target: DATA },
            ...mode.kind === "engine"
              ? [{ Type: "bind", Source: mode.socket, Target: SOCKET }]
              : [],
          ],
        },
      },
    });
    return Id;
  }

  /** Waits until the builder answers. Throws where it ends, or where the port is not its own. */
  async #ready({ id, port }: Found): Promise<void> {
    const attempted = "Cannot start a builder";
    for (
      const until = performance.now() + READY_MS;
      performance.now() < until;
      await sleep(POLL_MS)
    ) {
      const owner = await listenerOwner(port);
      if (owner === 0 || owner !== undefined && owner === Deno.uid()) {
        if (await answers(port)) return;
      } else if (owner !== undefined) {
        throw new SvcError("conflict", `${attempted}: user ${owner} listens on its port ${port}`);
      }
      const now = await this.#find();
      if (now?.id !== id) {
        throw new SvcError("conflict", `${attempted}: somebody removed ${CONTAINER}`);
      }
      if (!now.running) {
        const words = await lastWords(this.#options.engine, id);
        throw new SvcError(
          "prerequisite_missing",
          `${attempted}: ${CONTAINER} ended with exit code ${now.exitCode}${words && `: ${words}`}`,
          { help: `see docker logs ${CONTAINER}` },
        );
      }
    }
    throw new SvcError("timeout", `${attempted}: ${CONTAINER} does not answer on port ${port}`, {
      help: `see docker logs ${CONTAINER}`,
    });
  }

  async #remove(id: string): Promise<void> {
    try {
      await this.#options.engine.run({
        method: "DELETE",
        path: `/containers/${id}`,
        query: { force: true },
        attempted: `Cannot remove the container ${CONTAINER}`,
      });
    } catch (error) {
      // It is gone, or on its way.
      if (![404, 409].includes(daemonStatus(error) ?? 0)) throw error;
    }
  }
}

/** A port that is free now; where it no longer is when the builder starts, the next try has another one. */
function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}

async function answers(port: number): Promise<boolean> {
  try {
    const signal = AbortSignal.timeout(10_000);
    const response = await fetch(`http://127.0.0.1:${port}/readyz`, { signal, redirect: "manual" });
    await response.body?.cancel();
    return response.ok;
  } catch {
    return false; // not yet
  }
}
