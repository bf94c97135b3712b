/** Files of instances, in and out as archives. */
import type { FileAbility, InstanceOptions } from "../../caps.ts";
import type { Deployments } from "../deployments.ts";
import { type InstanceRootOptions, openInstanceRoot } from "./instance_root.ts";
import { type OpenRoot, packFile, statFile, unpackFiles } from "./jobs.ts";

export interface InstanceFilesOptions extends InstanceRootOptions {
  deployments: Deployments;
}

export function instanceFiles(options: InstanceFilesOptions): FileAbility {
  /** `use` disposes of the root, unless it throws before its work has begun. */
  const withRoot = async <T>(
    name: string,
    { instance, signal }: InstanceOptions,
    use: (root: OpenRoot) => Promise<T>,
  ): Promise<T> => {
    signal?.throwIfAborted();
    const chosen = options.deployments.require(name).pick(instance);
    return await use(await openInstanceRoot(chosen, options));
  };
  return {
    stat: (name, path, given = {}) => withRoot(name, given, (root) => statFile(root, path)),
    read: (name, path, given = {}) =>
      withRoot(name, given, (root) => packFile(root, path, given.signal)),
    write: (name, path, tar, given = {}) =>
      withRoot(name, given, (root) => unpackFiles(root, path, tar, given.signal)),
  };
}
