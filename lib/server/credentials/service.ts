/**
 * The credentials of workloads: asks the callers of deploy sessions for them, and delivers them on this host. No
 * value is on disk, in a record or in the log; what is delivered ends with the session.
 */
import { deliveriesOf, type Delivery, endpointPort } from "../../api/credentials.ts";
import type { DeploySpec } from "../../api/deploy_spec.ts";
import { SvcError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { CredentialAsker } from "../../credentials/ask.ts";
import { type EndpointDelivery, endpointVariables } from "../../credentials/endpoint.ts";
import type { UpstreamDelivery } from "../../credentials/upstream.ts";
import { oneValue } from "../../credentials/credential.ts";
import { fileText } from "../../credentials/file_formats.ts";
import type { KeptCredential } from "../../credentials/kept_source.ts";
import type { Attachments } from "../../deploy/backend.ts";
import type { Claim, DeployService } from "../../deploy/services.ts";
import type { WorkloadNamespaces } from "../../deploy/namespaces.ts";
import type { CredentialSettings } from "../../caretaker/roles/credential.ts";
import type { Duplex } from "../../wire/duplex.ts";
import { writeLine } from "../../wire/lines.ts";
import type { SessionCallers } from "../../wire/attached/callers.ts";
import type { CredentialFiles } from "./files.ts";
import { listenBeside } from "./listen.ts";
import { renew } from "./renewal.ts";

export interface CredentialServiceOptions {
  files: CredentialFiles;
  callers: SessionCallers;
  namespaces: WorkloadNamespaces;
  log: Logger;
}

type FileDelivery = Extract<Delivery, { kind: "file" }>;
type VariableDelivery = Extract<Delivery, { kind: "env" }>;

const refused = ({ name }: DeploySpec, why: string, help: string) =>
  new SvcError("unsupported", `Cannot deploy ${name} with credentials: ${why}`, { help });

/** Throws where the spec asks for what this server does not deliver. */
function checkDeliveries(spec: DeploySpec, deliveries: readonly Delivery[]): void {
  const apart = spec.networks.find(({ name }) => name === "host" || name === "none")?.name;
  if (
    apart !== undefined && deliveries.some(({ kind }) => kind === "endpoint" || kind === "proxy")
  ) {
    throw refused(
      spec,
      `an endpoint is for the workload's own loopback, and network ${apart} has none of its own`,
      "deliver it with kind: file, or choose another network",
    );
  }
  const twice = deliveries.find(({ kind, envVar = "" }) =>
    kind === "env" && Object.hasOwn(spec.env ?? {}, envVar)
  );
  if (twice) {
    throw refused(
      spec,
      `the spec sets ${twice.envVar} too, which is to have ${twice.source}`,
      "leave it out of env, or give the credential another variable",
    );
  }
}

/** One deployment's credentials. */
class Delivered {
  readonly #spec: DeploySpec;
  readonly #options: CredentialServiceOptions;
  readonly asker: CredentialAsker;
  readonly #files: readonly FileDelivery[];
  readonly #variables: readonly VariableDelivery[];
  readonly #endpoints: readonly EndpointDelivery[];
  readonly #upstreams: readonly UpstreamDelivery[];
  readonly #renewals = new AbortController();
  #attending: AsyncDisposable | undefined;

  constructor(
    spec: DeploySpec,
    deliveries: readonly Delivery[],
    asker: CredentialAsker,
    options: CredentialServiceOptions,
  ) {
    this.#spec = spec;
    this.#options = options;
    this.asker = asker;
    this.#files = deliveries.filter((one) => one.kind === "file");
    this.#variables = deliveries.filter((one) => one.kind === "env");
    this.#endpoints = deliveries.filter((one) => one.kind === "endpoint");
    this.#upstreams = deliveries.filter((one) => one.kind === "proxy");
  }

  /** What the workload gets. */
  get attachments(): Attachments {
    const { files } = this.#options;
    const env = endpointVariables(this.#endpoints, endpointPort(this.#spec), this.#upstreams);
    for (const { envVar, path } of this.#files) if (envVar !== undefined) env[envVar] = path;
    const mounts = this.#files.map(({ path: target }, index) => (
      { source: files.path(this.#spec.name, index), target, readOnly: true }
    ));
    const beside = [...this.#endpoints, ...this.#upstreams];
    const endpoints = [...new Set(beside.map(({ source }) => source))].join(", ");
    return {
      env,
      ...(mounts.length > 0 && { mounts }),
      ...(this.#variables.length > 0 && { secretEnv: files.variablesPath(this.#spec.name) }),
      ...(endpoints !== "" && {
        beside: `an endpoint of credentials (${endpoints})`,
        besideRoles: { credential: this.#role },
      }),
    };
  }

  /** For a companion, which has no address but its own to serve at. */
  get #role(): CredentialSettings {
    const [deliveries, upstreams] = [this.#endpoints, this.#upstreams];
    return { port: endpointPort(this.#spec), deliveries, upstreams };
  }

  /** Leads a companion's question to the caller: only for what is delivered at endpoints. */
  async lead(stream: Duplex, { name, upstream }: Readonly<Record<string, unknown>>): Promise<void> {
    const asked = upstream === true ? this.#upstreams : this.#endpoints;
    const known = asked.find(({ source }) => source === name);
    if (!known) {
      await writeLine(stream, { error: "the deployment has no endpoint of that name" });
      return await stream.closeWrite();
    }
    await this.asker.lead(stream, known.source, upstream === true);
  }

  get #names(): Set<string> {
    return new Set(this.#files.map(({ source }) => source));
  }

  async #write(name: string, credential: KeptCredential): Promise<void> {
    for (const [index, delivery] of this.#files.entries()) {
      if (delivery.source !== name) continue;
      const text = fileText(name, credential, delivery);
      await this.#options.files.write(this.#spec.name, index, text);
    }
  }

  /** Asks for what is delivered as files and variables, and writes them. Throws where there are no values. */
  async place(): Promise<void> {
    if (this.#files.length + this.#variables.length === 0) return;
    const { name: deployment } = this.#spec;
    const { files } = this.#options;
    const names = [...this.#names];
    const credentials = await Promise.all(names.map((name) => this.asker.get(name)));
    const variables = await Promise.all(
      this.#variables.map(async ({ source, envVar, valueKey }) =>
        [envVar, oneValue(source, await this.asker.get(source), valueKey)] as const
      ),
    );
    await files.open(deployment);
    if (variables.length > 0) {
      await files.writeVariables(deployment, Object.fromEntries(variables));
    }
    for (const [index, name] of names.entries()) {
      await this.#write(name, credentials[index]);
      this.#renew(name, credentials[index].renewInMs);
    }
  }

  /** After a restart of the server: the files are there, and are renewed as soon as the caller is back. */
  goOn(): void {
    for (const name of this.#names) this.#renew(name, 0);
  }

  #renew(name: string, firstMs: number | undefined): void {
    void renew({
      deployment: this.#spec.name,
      name,
      get: () => this.asker.get(name),
      write: (credential) => this.#write(name, credential),
      log: this.#options.log,
      signal: this.#renewals.signal,
    }, firstMs);
  }

  /** Serves the endpoints beside the workload's instances, those that run and those to come. */
  attend(): void {
    const [deliveries, upstreams] = [this.#endpoints, this.#upstreams];
    if (deliveries.length + upstreams.length === 0) return;
    const port = endpointPort(this.#spec);
    this.#attending ??= this.#options.namespaces.attend(
      this.#spec.name,
      ({ path, instance }) =>
        listenBeside({ path, port, instance }, {
          ...{ deliveries, upstreams },
          get: (name) => this.asker.get(name),
          send: (...request) => this.asker.send(...request),
        }),
    );
  }

  async stop(): Promise<void> {
    this.#renewals.abort();
    await this.#attending?.[Symbol.asyncDispose]();
  }
}

const NOTHING: Claim = { commit: () => {}, release: () => {} };

export class CredentialService implements DeployService, AsyncDisposable {
  readonly name = "credentials";
  readonly #options: CredentialServiceOptions;
  readonly #delivered = new Map<string, Delivered>();
  /** Of deployments that are being applied: their workloads may ask already. */
  readonly #coming = new Map<string, Delivered>();

  constructor(options: CredentialServiceOptions) {
    this.#options = options;
  }

  /** The one who is asked for a deployment's credentials. Throws `unsupported` for a deployment without a session. */
  #asker(spec: DeploySpec): CredentialAsker {
    const caller = this.#options.callers.of(spec.name);
    if (caller) return new CredentialAsker(caller);
    throw refused(
      spec,
      "they are made at the caller, and nobody would stay to make them",
      "use `svc deploy --session`",
    );
  }

  claim(spec: DeploySpec): Claim {
    const deliveries = deliveriesOf(spec);
    if (!spec.credentials || spec.credentials.sources.length === 0) return NOTHING;
    const { name } = spec;
    checkDeliveries(spec, deliveries);
    const delivered = new Delivered(spec, deliveries, this.#asker(spec), this.#options);
    let placed = false;
    return {
      contribute: async () => {
        await delivered.place();
        delivered.attend();
        this.#coming.set(name, delivered);
        placed = true;
        return delivered.attachments;
      },
      commit: async () => {
        this.#coming.delete(name);
        const earlier = this.#delivered.get(name);
        this.#delivered.set(name, delivered);
        await earlier?.stop();
        if (placed) return;
        delivered.goOn();
        delivered.attend();
      },
      release: async () => {
        this.#coming.delete(name);
        await delivered.stop();
        if (!this.#delivered.has(name)) await this.#options.files.remove(name);
      },
    };
  }

  /** A companion of the deployment asks for a credential, or sends a request on. */
  async lead(
    deployment: string,
    stream: Duplex,
    fields: Readonly<Record<string, unknown>>,
  ): Promise<void> {
    const delivered = this.#coming.get(deployment) ?? this.#delivered.get(deployment);
    if (!delivered) return stream.reset();
    await delivered.lead(stream, fields);
  }

  async removed(name: string): Promise<void> {
    const delivered = this.#delivered.get(name);
    this.#delivered.delete(name);
    await delivered?.stop();
    await this.#options.files.remove(name);
  }

  /** Removes what a killed server has left of deployments without a session. */
  async sweep(): Promise<void> {
    const { files, callers, log } = this.#options;
    await files.sweep((deployment) => callers.of(deployment) !== undefined)
      .catch((error) => log.warn("credentials of an earlier server were not removed", { error }));
  }

  /** The server ends: workloads and their files stay, for the sessions that the next server takes over. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#delivered.values()].map((delivered) => delivered.stop()));
  }
}
