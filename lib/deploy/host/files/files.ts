/** Files of instances, in and out as archives. */
import type { FileAbility, InstanceOptions } from "../../caps.ts";
import type { Deployments } from "../deployments.ts";
import {
  changesRoot,
  type InstanceRootOptions,
  openInstanceRoot,
  ownRoot,
} from "./instance_root.ts";
import { findChanges, type OpenRoot, packFile, statFile, unpackFiles } from "./jobs.ts";

export interface InstanceFilesOptions extends InstanceRootOptions {
  deployments: Deployments;
  /** Ends all copies. */
  closing: AbortSignal;
}

export function instanceFiles(options: InstanceFilesOptions): FileAbility {
  const chosen = (name: string, { instance, signal }: InstanceOptions) => {
    const ending = signal ? AbortSignal.any([signal, options.closing]) : options.closing;
    ending.throwIfAborted();
    return { ending, one: options.deployments.require(name).pick(instance) };
  };
  /** `use` disposes of the root. */
  const withRoot = async <T>(
    name: string,
    given: InstanceOptions,
    use: (root: OpenRoot, ending: AbortSignal) => Promise<T>,
  ): Promise<T> => {
    const { one, ending } = chosen(name, given);
    return await use(await openInstanceRoot(one, options), ending);
  };
  return {
    stat: (name, path, given = {}) => withRoot(name, given, (root) => statFile(root, path)),
    read: (name, path, given = {}) =>
      withRoot(name, given, (root, ending) => packFile(root, path, ending)),
    write: (name, path, tar, given = {}) =>
      withRoot(name, given, (root, ending) => unpackFiles(root, path, tar, ending)),
    changes: async (name, given = {}) =>
      await findChanges(...await changesRoot(chosen(name, given).one, options)),
    export: async (name, given = {}) => {
      const { one, ending } = chosen(name, given);
      return (await packFile(await ownRoot(one, options), "/", ending)).tar;
    },
  };
}
