/**
 * What `svc version` says of this executable. From the sources these are the defaults below; the entry
 * that `scripts/compile.ts` generates sets the built one's before anything else runs.
 */
/**
 * `source`: run from the sources. `launcher`: self-contained executable that unpacks itself once.
 * `compile`: made by `deno compile`.
 */
export type BuildForm = "source" | "launcher" | "compile";

export interface BuildInfo {
  version: string;
  /** Full hash of the commit it was built from; absent where it was built outside a git checkout. */
  commit?: string;
  /** The checkout had changes that are in no commit. */
  dirty: boolean;
  form: BuildForm;
  /** Parts that only some builds have (SPEC.md, "Versioning" 6). */
  tags: readonly string[];
  /** The file a person runs, to run it again; from the sources: undefined. */
  executable?: string;
}

let current: BuildInfo | undefined;

/**
 * The sources name their version in one place, which the built executable does not have. They have every
 * part; which ones count as built in is said by `SVC_BUILD_TAGS`.
 */
function ofSources(): BuildInfo {
  const text = Deno.readTextFileSync(new URL("../../deno.json", import.meta.url));
  const { version } = JSON.parse(text) as { version: string };
  const tags = (Deno.env.get("SVC_BUILD_TAGS") ?? "").split(/[\s,]+/).filter((tag) => tag !== "");
  return { version, dirty: false, form: "source", tags };
}

export function buildInfo(): BuildInfo {
  return current ??= ofSources();
}

/** For the built executable's entry only. */
export function setBuildInfo(info: BuildInfo): void {
  current = info;
}
