/** Holds a deploy session in the agent: resumed where it can be, else opened again. */
import type { Description } from "../../agent/protocol.ts";
import type { HoldContext, Holder } from "../../agent/held.ts";
import type { ApplyResult } from "../../api/deployment.ts";
import { SvcError } from "../../base/errors.ts";
import { type Conduit, type Endpoint, openConduit } from "../../client/conduit/conduit.ts";
import {
  type DeploySession,
  openDeploySession,
  type SessionResume,
} from "../../client/deploy_session.ts";
import { servicesOf } from "../../client/forward.ts";
import type { Client } from "../../client/client.ts";
import type { OfferedMounts, PassedMounts } from "../../client/mounts/open.ts";
import { type Connecting, openConnection } from "../connect.ts";
import { withCertificates } from "../deploy_certificates.ts";
import { withCredentials } from "../deploy_credentials.ts";
import { offerSources } from "../deploy_mounts.ts";
import { withLogins } from "../deploy_logins.ts";
import { endpointLine } from "../endpoint_line.ts";
import { egressTakes } from "../egress_takes.ts";
import { prepareSessionIngress } from "../session_ingress.ts";
import { silentIo } from "./silent_io.ts";
import type { Beginning, SessionWork } from "./work.ts";

/** Milliseconds for a server to remove a deployment that is released; after its grace it does so by itself. */
const END_MS = 20_000;

/** What the next attempt, or the next agent, wants to know. */
interface Kept {
  resume?: SessionResume;
  /** How the mounts go on in the next agent. */
  passed?: PassedMounts;
  /** Local ports by the deployment's. */
  ports?: Record<string, number>;
  /** It was deployed once. */
  begun?: boolean;
}

const portKey = (port: number, protocol: string) => `${port}/${protocol}`;

/** The local ports that were opened, so that they stay the same. */
function portsOf(endpoints: readonly Endpoint[]): Record<string, number> {
  return Object.fromEntries(
    endpoints.flatMap((one) =>
      one.kind === "port"
        ? [[portKey(one.port, one.protocol), Number(one.address.split(":").at(-1))]]
        : []
    ),
  );
}

class SessionHolding {
  readonly #description: Description;
  readonly #context: HoldContext;
  readonly #work: SessionWork;
  #kept: Kept;
  /** The deployment runs, and what it needs of this machine is there. */
  #serving = false;

  constructor(description: Description, context: HoldContext) {
    this.#description = description;
    this.#context = context;
    this.#work = description.work as SessionWork;
    this.#kept = context.kept as Kept ?? {};
  }

  async #keep(change: Kept, waits = false): Promise<void> {
    this.#kept = { ...this.#kept, ...change };
    await this.#context.keep(this.#kept, waits);
  }

  async run(): Promise<void> {
    const { leaving, progress } = this.#context;
    const { env, folder } = this.#description;
    const { target, tokenCache, mounts, credentials, ghBin } = this.#work;
    const warn = (text: string) => progress(`warning: ${text}`);
    const io = silentIo(leaving, progress);
    await using cleanup = new AsyncDisposableStack();
    const { client } = await openConnection(
      { io, env, cleanup, values: { tokenCache } } as unknown as Connecting,
      target,
    );
    const offered = cleanup.use(await offerSources(mounts, { env, warn }));
    const adopted = this.#adopt(offered);
    const prepared = await withCredentials(this.#work.body, {
      ...{ flags: credentials, session: true, env, folder, ghBin, notice: warn, signal: leaving },
    });
    const certified = await withCertificates(prepared.body, { target, client, warn });
    const body = await withLogins(certified, { client, env, io });
    const takes = { ...offered.takes, ...await egressTakes(body, env), ...prepared.takes };
    const { until } = this.#description.begin as Beginning | undefined ?? {};
    const open = (resume?: SessionResume) => {
      const session = openDeploySession(client, { ...body, mounts: offered.mounts }, {
        ...{ signal: leaving, resume, takes, ...(!this.#kept.begun && { until }) },
        onToken: (token) => void this.#keep({ resume: token }).catch(progress),
        onProgress: progress,
        onLost: () => this.#context.tell("reconnecting", `the connection is lost`),
        onResumed: () => this.#serving && this.#context.tell("connected"),
      });
      session.closed.catch(() => {/* whoever waits is told */});
      return session;
    };
    try {
      await this.#live(client, open, { env, adopted });
    } catch (error) {
      if (this.#context.passing.aborted && this.#serving && mounts.length > 0) {
        const passed = await offered.pass();
        if (passed) await this.#keep({ passed }, true);
      }
      throw error;
    }
  }

  /** Goes on with the mounts of the agent before; false where they ended with it. */
  #adopt(offered: OfferedMounts): boolean {
    const { passed } = this.#kept;
    if (this.#work.mounts.length === 0) return true;
    this.#kept = { ...this.#kept, passed: undefined };
    if (!passed) return false;
    try {
      offered.adopt(passed);
      return true;
    } catch (error) {
      this.#context.progress(`warning: the mounts of the agent before end: ${error}`);
      return false;
    }
  }

  async #live(
    client: Client,
    open: (resume?: SessionResume) => DeploySession,
    { env, adopted }: { env: Description["env"]; adopted: boolean },
  ): Promise<void> {
    const { resume } = this.#kept;
    const first = resume && await this.#resumed(open, resume, adopted);
    const { begun } = this.#kept;
    if (begun && !first && this.#work.once) return;
    const session = first ?? open();
    const { releasing } = this.#context;
    const end = () => session.end();
    releasing.addEventListener("abort", end, { once: true });
    if (releasing.aborted) end();
    try {
      const result = await Promise.race([session.applied, session.closed, this.#given()]);
      if (result === undefined || typeof result === "string") return;
      await this.#serve(client, session, { result, env, again: begun === true && !first });
    } finally {
      releasing.removeEventListener("abort", end);
    }
  }

  /** The session of an earlier attempt; undefined: it is over. Mounts end with the process that served them. */
  async #resumed(
    open: (resume?: SessionResume) => DeploySession,
    resume: SessionResume,
    adopted: boolean,
  ): Promise<DeploySession | undefined> {
    const session = open(resume);
    try {
      if (!adopted) session.end();
      await (adopted ? Promise.race([session.applied, session.closed]) : session.closed);
      if (adopted) return session;
    } catch (error) {
      const isOver = error instanceof SvcError && ["not_found", "unavailable"].includes(error.code);
      if (!isOver) throw error;
    }
    await this.#keep({ resume: undefined });
    return undefined;
  }

  /** Resolves a while after the release: the server is away, and removes the deployment by itself. */
  #given(): Promise<void> {
    const { releasing } = this.#context;
    return new Promise((resolve) => {
      const wait = () => Deno.unrefTimer(setTimeout(resolve, END_MS));
      if (releasing.aborted) wait();
      else releasing.addEventListener("abort", wait, { once: true });
    });
  }

  async #serve(
    client: Client,
    session: DeploySession,
    { result, env, again }: { result: ApplyResult; env: Description["env"]; again: boolean },
  ): Promise<void> {
    const { shows, works, tell } = this.#context;
    const { mounts, conduit: wanted } = this.#work;
    await using conduit = wanted ? await this.#conduit(client, result, env) : undefined;
    const endpoints = conduit?.endpoints ?? [];
    shows([
      ...mounts.map(({ source, target, readOnly }) =>
        `${source} -> ${target}${readOnly ? ":ro" : ""}`
      ),
      ...endpoints.map(endpointLine),
    ]);
    await this.#keep({ ports: portsOf(endpoints), begun: true });
    this.#serving = true;
    works({ result, endpoints }, again ? "it ended meanwhile, and was deployed again" : undefined);
    void session.exited.then(() => tell("connected", "all its instances have ended"));
    const broken = Promise.withResolvers<never>();
    conduit?.closed.catch(broken.reject);
    await Promise.race([session.closed, broken.promise, this.#given()]);
  }

  async #conduit(
    client: Client,
    { deployment: { name, ports, exposed = [], ingress: routes } }: ApplyResult,
    env: Description["env"],
  ): Promise<Conduit> {
    const { leaving, progress } = this.#context;
    const { target } = this.#work;
    const warn = (text: string) => progress(`warning: ${text}`);
    await using opened = new AsyncDisposableStack();
    const ingress = await prepareSessionIngress(
      { io: silentIo(leaving, progress), env },
      { target, client, warn, signal: leaving },
    );
    if (ingress) opened.use(ingress);
    const before = this.#kept.ports ?? {};
    const conduit = opened.use(
      await openConduit({
        mode: target.conduit.value,
        services: servicesOf(client),
        deployments: [{
          name,
          ports: [...ports, ...exposed].map(({ container, protocol }) => ({
            ...{ container, protocol, local: before[portKey(container, protocol)] },
          })),
          ingress: routes,
        }],
        settings: target.settings.conduit ?? {},
        ...{ ingress, warn },
      }),
    );
    const kept = opened.move();
    return {
      endpoints: conduit.endpoints,
      closed: conduit.closed,
      [Symbol.asyncDispose]: () => kept.disposeAsync(),
    };
  }
}

export const holdSession: Holder = (description, context) =>
  new SessionHolding(description, context).run();
