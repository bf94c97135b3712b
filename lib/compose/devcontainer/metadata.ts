/** What images and features say of a dev container, below what the file says (containers.dev, "Image Metadata"). */
import { SvcError } from "../../base/errors.ts";
import { mountOf } from "./model.ts";
import { type Devcontainer, type Fields, fieldsOf, HEEDED, LIFECYCLE, pick } from "./read.ts";

/** The label of an image that has a list of these, or one. */
export const METADATA_LABEL = "devcontainer.metadata";

/** What features say of the container; the rest of them is about their installation. */
const OF_FEATURES: readonly (keyof Fields)[] = [
  ...["mounts", "init", "privileged", "capAdd", "securityOpt", ...LIFECYCLE] as const,
];
const OF_IMAGES: readonly (keyof Fields)[] = [
  ...["containerEnv", "containerUser", "remoteUser", "remoteEnv", "overrideCommand"] as const,
  ...["forwardPorts", ...OF_FEATURES] as const,
];

/** Published on loopback alone, and not where the image likes. */
const PORT = /^([a-zA-Z][\w.-]*:)?\d+$/;

/** Of one image, or of one feature. */
export interface Entry extends Fields {
  /** A line for a shell that runs before the container's own process. */
  entrypoint?: string;
}

/**
 * What is heeded of a feature, or of others with their keys: checked, its variables written out. Those of the caller's
 * environment have no value, since the file's author has not chosen what is told to whom. Throws `compose_invalid`,
 * and `unsupported` for folders of this machine.
 */
export function entryOf(
  raw: unknown,
  dev: Devcontainer,
  what: string,
  keys: readonly (keyof Fields)[] = OF_FEATURES,
): Entry {
  const kinds = { ...pick(HEEDED, keys), entrypoint: "text" as const };
  const entry: Entry = dev.substitute(fieldsOf(raw, kinds, what));
  const port = entry.forwardPorts?.find((one) => !PORT.test(String(one)));
  if (port !== undefined) {
    throw new SvcError(
      "compose_invalid",
      `Cannot use ${what}: forwardPorts: ${JSON.stringify(port)} is neither PORT nor HOST:PORT`,
    );
  }
  const mounts = entry.mounts?.map((mount) => mountOf(mount, what));
  if (!mounts?.some(({ type }) => type === "bind")) return { ...entry, ...(mounts && { mounts }) };
  throw new SvcError("unsupported", `Cannot use ${what}: it asks for a folder of this machine`, {
    help: `write the mount into ${dev.file}, where it can be mounted`,
  });
}

/** Of the label's text. Throws as {@linkcode entryOf} does. */
export function entriesOf(text: string, dev: Devcontainer, what: string): Entry[] {
  let raw: unknown;
  try {
    raw = JSON.parse(text);
  } catch {
    throw new SvcError("compose_invalid", `Cannot read ${what}: it is no JSON`);
  }
  return [raw].flat().map((one) => entryOf(one, dev, what, OF_IMAGES));
}

const union = <T>(lists: (T[] | undefined)[]): T[] => [
  ...new Set(lists.flatMap((list) => list ?? [])),
];

const portOf = (port: number | string) => String(port).replace(/^localhost:/, "");

/** The last mount of each target. */
function mountsOf(entries: readonly Entry[], file: string) {
  const all = entries.flatMap(({ mounts = [] }) => mounts).map((mount) => mountOf(mount, file));
  const last = new Map(all.map((mount, index) => [mount.target, index]));
  return all.filter(({ target }, index) => last.get(target) === index);
}

/** The dev container with what its image says first, then its features, and the file last. */
export function withEntries(dev: Devcontainer, entries: readonly Entry[]): Devcontainer {
  const all: readonly Entry[] = [...entries, dev.fields];
  const last = <K extends keyof Fields>(key: K): Pick<Fields, K> | undefined => {
    const found = all.findLast((one) => one[key] !== undefined && one[key] !== "");
    return found && pick(found, [key]);
  };
  const listed = <K extends keyof Fields>(key: K, list: unknown[]) =>
    list.length > 0 ? { [key]: list } : {};
  const fields: Fields = {
    ...dev.fields,
    ...last("remoteUser"),
    ...last("containerUser"),
    ...last("overrideCommand"),
    ...(all.some(({ init }) => init) && { init: true }),
    ...(all.some(({ privileged }) => privileged) && { privileged: true }),
    ...listed("capAdd", union(all.map(({ capAdd }) => capAdd))),
    ...listed("securityOpt", union(all.map(({ securityOpt }) => securityOpt))),
    ...listed("mounts", mountsOf(all, dev.file)),
    ...listed("forwardPorts", union(all.map(({ forwardPorts }) => forwardPorts?.map(portOf)))),
    remoteEnv: Object.assign({}, ...all.map(({ remoteEnv }) => remoteEnv)),
    containerEnv: Object.assign({}, ...all.map(({ containerEnv }) => containerEnv)),
  };
  return {
    ...{ ...dev, fields, commands: all },
    entrypoints: entries.flatMap(({ entrypoint }) => entrypoint || []),
  };
}

/** What the merged file has of rights that the file by itself has not; for a warning. */
export function raisedRights({ fields }: Devcontainer, { fields: own }: Devcontainer): string[] {
  const more = (key: "capAdd" | "securityOpt") =>
    (fields[key] ?? []).filter((one) => !own[key]?.includes(one));
  return [
    ...(fields.privileged && !own.privileged ? ["privileged"] : []),
    ...more("capAdd"),
    ...more("securityOpt"),
  ];
}
