/** Files of instances, in and out as archives. */
import type { FileAbility, InstanceOptions } from "../../caps.ts";
import type { Deployments } from "../deployments.ts";
import { type InstanceRootOptions, openInstanceRoot } from "./instance_root.ts";
import { type OpenRoot, packFile, statFile, unpackFiles } from "./jobs.ts";

export interface InstanceFilesOptions extends InstanceRootOptions {
  deployments: Deployments;
  /** Ends all copies. */
  closing: AbortSignal;
}

export function instanceFiles(options: InstanceFilesOptions): FileAbility {
  /** `use` disposes of the root. */
  const withRoot = async <T>(
    name: string,
    { instance, signal }: InstanceOptions,
    use: (root: OpenRoot, ending: AbortSignal) => Promise<T>,
  ): Promise<T> => {
    const ending = signal ? AbortSignal.any([signal, options.closing]) : options.closing;
    ending.throwIfAborted();
    const chosen = options.deployments.require(name).pick(instance);
    return await use(await openInstanceRoot(chosen, options), ending);
  };
  return {
    stat: (name, path, given = {}) => withRoot(name, given, (root) => statFile(root, path)),
    read: (name, path, given = {}) =>
      withRoot(name, given, (root, ending) => packFile(root, path, ending)),
    write: (name, path, tar, given = {}) =>
      withRoot(name, given, (root, ending) => unpackFiles(root, path, tar, ending)),
  };
}
