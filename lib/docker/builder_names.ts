/** Names in the container engine that are the builder's alone: whoever owned one would be root by it. */

/** Of the builder's container and of its image; other things of the builder begin with it. */
export const BUILDER = "svc-builder";

/** True for the repository of the builder's image, with or without what Docker puts before plain names. */
export const isBuilderRepository = (repository: string) =>
  repository.replace(/^library\//, "") === BUILDER;

/** True for a volume that is the builder's, or may become it. */
export const isBuilderVolume = (name: string) => name.startsWith(BUILDER);
