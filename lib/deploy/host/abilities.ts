/** The abilities of host engines: what a caller may ask of running instances, besides apply and power. */
import { SvcError } from "../../base/errors.ts";
import { signalNumber } from "../../base/signals.ts";
import type { DeployCaps, InstanceOptions } from "../caps.ts";
import { allOrFirstError } from "../roll_out.ts";
import { attach, type AttachParts } from "./attach.ts";
import type { Deployments } from "./deployments.ts";
import type { ContainerEngine } from "./engine.ts";
import { execIn } from "./exec.ts";
import { instanceFiles } from "./files/files.ts";
import type { InstanceRootOptions } from "./files/instance_root.ts";
import { managedNetworks, managedVolumes } from "./managed.ts";
import type { NetworkTable } from "./networks.ts";
import { sampled } from "./stats.ts";
import { processesOf } from "./top.ts";
import type { NamedVolumes } from "./volumes.ts";

export interface AbilityParts extends AttachParts {
  engine: ContainerEngine;
  deployments: Deployments;
  volumes: NamedVolumes;
  networks: NetworkTable;
  /** Where roots of stopped instances are mounted meanwhile, and what their bind sources may be. */
  roots: Omit<InstanceRootOptions, "engine">;
  /** Removes networks that nobody uses; the default one too with `atEnd`. */
  pruneNetworks: (options: { atEnd: boolean }) => Promise<void>;
}

export function hostAbilities(parts: AbilityParts): DeployCaps {
  const { engine, deployments } = parts;
  const freeze = (frozen: boolean) => async (name: string, { instance }: InstanceOptions = {}) => {
    const chosen = deployments.require(name).requireRunning(instance);
    await allOrFirstError(chosen.map((one) => one.freeze(frozen)));
  };
  return {
    exec: async (name, request, { signal } = {}) => {
      const { target } = deployments.require(name).pick(request.instance);
      return await execIn(engine, target, request, signal);
    },

    attach: (name, options) => attach(parts, name, options),

    signal: async (name, signal, { instance } = {}) => {
      const deployment = deployments.require(name);
      const number = signalNumber(signal);
      if (number === undefined) {
        throw new SvcError(
          "argument_invalid",
          `Cannot send ${JSON.stringify(signal)} to ${name}: it is no signal`,
          { help: 'give a name or a number: "HUP", "SIGHUP", "1"' },
        );
      }
      const chosen = deployment.requireRunning(instance);
      await allOrFirstError(chosen.map((one) => one.signal(number)));
    },

    pause: { pause: freeze(true), unpause: freeze(false) },

    update: async (name, update, { instance } = {}) => {
      const deployment = deployments.require(name);
      const chosen = instance === undefined ? deployment.ready : [deployment.pick(instance)];
      await allOrFirstError(chosen.map((one) => one.update(update)));
    },

    top: async (name, { instance } = {}) => {
      const chosen = deployments.require(name).requireRunning(instance);
      const lists = await Promise.all(
        chosen.map(({ id, life: { run } }) => run && processesOf(id, run.process)),
      );
      return lists.filter((list) => list !== undefined);
    },

    stats: (name, options) => sampled(parts, name, options),
    files: instanceFiles({ ...parts, ...parts.roots }),
    volumes: managedVolumes(parts),
    networks: managedNetworks(parts),
    mounts: true,
    namespaces: true,
  };
}
