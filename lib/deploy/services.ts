/**
 * The additions of svc to workloads on any engine. Each subsystem is a service with a few steps. Only this
 * module runs the steps, and undoes them in reverse where one fails.
 */
import type { DeploySpec } from "../api/deploy_spec.ts";
import type { DeploymentStatus } from "../api/deployment.ts";
import type { CallerMount } from "../api/caller_mounts.ts";
import type { DeliveredFile } from "../api/delivered_files.ts";
import type { HostCertificate } from "../api/ingress_certificates.ts";
import { SvcError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import type { AttachedMount, Attachments, DeployBackend } from "./backend.ts";

/** The parts of a request besides the spec. */
export interface DeployRequest {
  certificates?: readonly HostCertificate[];
  /** Of the caller's own files; only in a session. */
  callerMounts?: readonly CallerMount[];
  files?: readonly DeliveredFile[];
}

export interface DeployService {
  /** Name of the subsystem, for errors and the log: "ingress". */
  readonly name: string;
  /**
   * First step, before anything is done for the deployment: takes what the spec asks for, and throws where
   * another deployment has it or something else stands in the way. The deployment's earlier claim stays valid
   * until `commit`. For deployments that exist when the server starts, the claim is committed at once, without
   * a contribution.
   */
  claim(spec: DeploySpec, request: DeployRequest): Claim | Promise<Claim>;
  /** The service's part of the deployment's status; called for every status. Warnings are added to the others. */
  describe?(name: string): Partial<DeploymentStatus>;
  /** The deployment is gone. The service need not know it. */
  removed?(name: string): void | Promise<void>;
}

/** One service's part in one apply. */
export interface Claim {
  /** Second step, after all services have claimed: the service's additions to the workload. */
  contribute?(): Attachments | Promise<Attachments>;
  /** Last step, after the backend has applied: the new claim replaces the deployment's earlier one. */
  commit(): void | Promise<void>;
  /** Instead of `commit`, or where `commit` failed: gives back what was claimed and contributed. */
  release(): void | Promise<void>;
}

type Engine = Pick<DeployBackend, "name" | "caps">;

/** Throws `unsupported` for a part whose ability the backend lacks. */
export function requireAbilities({ name, caps }: Engine, attachments: Attachments): void {
  const { mounts, secretEnv, companion, egress, beside, certificates } = attachments;
  const refuse = (what: string, why: string, help: string) => {
    throw new SvcError("unsupported", `Cannot deploy with ${what}: ${why}`, { help });
  };
  if (mounts?.length && !caps.mounts) {
    refuse("a folder of the server", `the ${name} backend cannot mount it`, "leave it out");
  }
  if (secretEnv !== undefined && !caps.secretEnv) {
    refuse(
      "credentials of kind: env",
      `the ${name} backend keeps variables in the container's settings, where others read them`,
      "deliver them with kind: file (envVar names its path) or kind: endpoint",
    );
  }
  if (companion && !caps.companion) {
    const roles = Object.keys(companion.roles).join(", ");
    refuse(roles, `the ${name} backend cannot run a companion`, "leave it out");
  }
  if (egress && !caps.egress?.modes.includes(egress.mode)) {
    const { modes = [] } = caps.egress ?? {};
    refuse(
      `egress mode ${egress.mode}`,
      `the ${name} backend cannot lead a workload's connections through a relay that way`,
      `use egress mode ${["env", ...modes].join(" or ")}`,
    );
  }
  if (egress?.routes.includes("cluster") && !caps.egress?.dialOut) {
    refuse(
      "egress route cluster",
      `the ${name} backend has no way straight out for a workload behind a relay`,
      "give egress.default and the rules another route: client, gateway or deny",
    );
  }
  if (beside !== undefined && !caps.namespaces) {
    refuse(beside, `the ${name} backend lets nothing of svc run beside a workload`, "leave it out");
  }
  if (certificates && !caps.ingressCertificates) {
    refuse(
      "certificates",
      `the ingress of the ${name} backend is no cluster's`,
      "deploy without them: conduits and tunnels end TLS on their own",
    );
  }
}

/** What the server cannot run beside the workloads of an engine, their companions do, where there can be any. */
function placed({ caps }: Engine, { besideRoles, ...attachments }: Attachments): Attachments {
  if (!besideRoles || caps.namespaces || !caps.companion) return attachments;
  const { beside: _, companion, ...others } = attachments;
  return {
    ...others,
    companion: { ...companion, roles: { ...companion?.roles, ...besideRoles } },
  };
}

/** Throws `unsupported` where the backend cannot mount files that the server keeps. */
export function requireDeliveredFiles({ name, caps }: Engine): void {
  if (caps.mounts) return;
  throw new SvcError(
    "unsupported",
    `Cannot deploy with files (configs, secrets): the ${name} backend cannot mount what the server keeps`,
    {
      help: "put them into the image or a volume, or deploy on a backend of the server's own host",
    },
  );
}

/** Throws `unsupported` where the backend cannot mount the callers' own files. */
export function requireCallerMounts({ name, caps }: Engine): void {
  if (caps.companionMounts || caps.mounts && !caps.noCallerMounts) return;
  const { why, help } = caps.noCallerMounts ?? {
    why: `the ${name} backend cannot mount folders of the server`,
    help: "leave out --mount, or deploy on another backend",
  };
  throw new SvcError("unsupported", `Cannot mount the caller's files: ${why}`, { help });
}

/** The attachments of several services, merged. */
class Parts {
  readonly #deployment: string;
  readonly #env: Record<string, string> = {};
  readonly #mounts: NonNullable<Attachments["mounts"]>[number][] = [];
  readonly #roles: Record<string, unknown> = {};
  readonly #companionMounts: AttachedMount[] = [];
  readonly #beside: string[] = [];
  #besideRoles: Attachments["besideRoles"];
  #secretEnv: Attachments["secretEnv"];
  #certificates: Attachments["certificates"];
  #egress: Attachments["egress"];
  /** Which service contributed each part. */
  readonly #by = new Map<string, string>();

  constructor(deployment: string) {
    this.#deployment = deployment;
  }

  /** Throws `conflict` where two services contribute the same part. */
  add(service: string, { env = {}, mounts = [], ...parts }: Attachments): void {
    const { companion, egress, beside, certificates, secretEnv } = parts;
    for (const name of Object.keys(env)) this.#own(service, `the variable ${name}`);
    for (const { target } of [...mounts, ...companion?.mounts ?? []]) {
      this.#own(service, `a mount at ${target}`);
    }
    for (const role of Object.keys(companion?.roles ?? {})) this.#own(service, `the role ${role}`);
    if (certificates) this.#own(service, "certificates");
    Object.assign(this.#env, env);
    this.#mounts.push(...mounts);
    Object.assign(this.#roles, companion?.roles);
    this.#companionMounts.push(...companion?.mounts ?? []);
    if (beside !== undefined) this.#beside.push(beside);
    if (parts.besideRoles) this.#besideRoles = { ...this.#besideRoles, ...parts.besideRoles };
    this.#secretEnv ??= secretEnv;
    this.#certificates ??= certificates;
    this.#egress ??= egress;
  }

  #own(service: string, what: string): void {
    const other = this.#by.get(what);
    if (other !== undefined) {
      throw new SvcError(
        "conflict",
        `Cannot deploy ${this.#deployment}: ${other} and ${service} both add ${what}`,
        { help: "change the spec so that one of them does not" },
      );
    }
    this.#by.set(what, service);
  }

  get attachments(): Attachments {
    return {
      ...(Object.keys(this.#env).length > 0 && { env: this.#env }),
      ...(this.#mounts.length > 0 && { mounts: this.#mounts }),
      ...(Object.keys(this.#roles).length > 0 && {
        companion: {
          roles: this.#roles,
          ...this.#companionMounts.length > 0 && { mounts: this.#companionMounts },
        },
      }),
      ...(this.#secretEnv !== undefined && { secretEnv: this.#secretEnv }),
      ...(this.#egress && { egress: this.#egress }),
      ...(this.#beside.length > 0 && { beside: this.#beside.join(", ") }),
      ...(this.#besideRoles && { besideRoles: this.#besideRoles }),
      ...(this.#certificates && { certificates: this.#certificates }),
    };
  }
}

type Claimed = { service: DeployService; claim: Claim };

export class DeployServices {
  readonly #services: readonly DeployService[];
  readonly #log: Logger;

  /** `services` in the order of their steps. */
  constructor(services: readonly DeployService[], log: Logger) {
    this.#services = services;
    this.#log = log;
  }

  /**
   * Runs the steps around `apply`. Where a claim, a contribution or `apply` throws, every claim is released,
   * the last one first. A failed commit releases only its own claim: the workload already runs, the other
   * services commit, and the error reports the incomplete service; another apply tries again.
   */
  async around<Result>(
    spec: DeploySpec,
    request: DeployRequest,
    engine: Engine,
    apply: (attachments: Attachments) => Promise<Result>,
  ): Promise<Result> {
    const claimed: Claimed[] = [];
    let result: Result;
    if (request.files?.length) requireDeliveredFiles(engine);
    try {
      for (const service of this.#services) {
        claimed.push({ service, claim: await service.claim(spec, request) });
      }
      const parts = new Parts(spec.name);
      for (const { service, claim } of claimed) {
        parts.add(service.name, await claim.contribute?.() ?? {});
      }
      const attachments = placed(engine, parts.attachments);
      requireAbilities(engine, attachments);
      result = await apply(attachments);
    } catch (error) {
      for (const one of claimed.reverse()) await this.#release(spec, one);
      throw error;
    }
    const failures: unknown[] = [];
    for (const one of claimed) {
      try {
        await one.claim.commit();
      } catch (error) {
        failures.push(error);
        await this.#release(spec, one);
      }
    }
    if (failures.length > 0) throw failures[0];
    return result;
  }

  /** A failure here is logged only: the caller gets the earlier error. */
  async #release({ name }: DeploySpec, { service, claim }: Claimed): Promise<void> {
    try {
      await claim.release();
    } catch (error) {
      this.#log.warn(`${service.name} did not release its claim`, {
        deployment: name,
        error,
      });
    }
  }

  /** Claims for a deployment that an earlier server applied. */
  async adopt(spec: DeploySpec): Promise<void> {
    for (const service of this.#services) {
      try {
        await (await service.claim(spec, {})).commit();
      } catch (error) {
        // This server refuses the claim: the deployment keeps running without the service.
        this.#log.warn(`a deployment's ${service.name} is not served`, {
          deployment: spec.name,
          error,
        });
      }
    }
  }

  describe(status: DeploymentStatus): DeploymentStatus {
    const added = this.#services.map((service) => service.describe?.(status.name));
    const warnings = [status, ...added].flatMap((part) => part?.warnings ?? []);
    return Object.assign({}, status, ...added, { warnings });
  }

  /** Tells every service, the last one first, then throws the first failure. */
  async removed(name: string): Promise<void> {
    const failures: unknown[] = [];
    for (const service of this.#services.toReversed()) {
      try {
        await service.removed?.(name);
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  }
}
