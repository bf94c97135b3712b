/** Tells which sources of ADD and which contexts are git repositories, and which part of them is meant. */
import { SvcError } from "../../base/errors.ts";

export interface GitSource {
  /** The repository's address for git. */
  remote: string;
  /** Branch, tag or commit; absent: the repository's default branch. */
  ref?: string;
  /** Folder of the repository to use; absent: all of it. */
  subdir?: string;
  keepGitDir?: boolean;
  /** The commit that `ref` must be, in full or abbreviated. */
  checksum?: string;
}

const SCP = /^[\w.-]+@[\w.-]+:(?!\/\/)\S+$/;

function invalid(source: string, why: string): SvcError {
  return new SvcError("dockerfile_invalid", `Cannot use git repository ${source}: ${why}`);
}

/** Reads query parameters, which can say what the fragment says, and more. */
function fromQuery(url: URL, source: string): Partial<GitSource> {
  const found: Partial<GitSource> = {};
  for (const [name, value] of url.searchParams) {
    if (["ref", "branch", "tag", "commit"].includes(name)) found.ref = value;
    else if (name === "subdir") found.subdir = value;
    else if (name === "checksum") found.checksum = value;
    else if (name === "keep-git-dir") found.keepGitDir = value === "" || /^(1|true)$/i.test(value);
    else throw invalid(source, `unknown parameter ${name}`);
  }
  return found;
}

function safe(git: GitSource, source: string): GitSource {
  // A name that begins with a dash would be an option of git.
  if (git.remote.startsWith("-") || git.ref?.startsWith("-")) {
    throw invalid(source, "a name begins with a dash");
  }
  if (git.subdir?.split("/").includes("..")) throw invalid(source, "its folder leads out of it");
  return git;
}

/**
 * Reads `https://host/path.git`, `git://…`, `ssh://…`, `git@host:path`, `github.com/…`, each with an optional
 * `#ref:folder`. Undefined where the text is not a repository; throws `dockerfile_invalid` where it is
 * malformed.
 */
export function parseGitUrl(source: string): GitSource | undefined {
  const hash = source.indexOf("#");
  const base = hash < 0 ? source : source.slice(0, hash);
  const fragment = hash < 0 ? "" : source.slice(hash + 1);
  const colon = fragment.indexOf(":");
  const ref = colon < 0 ? fragment : fragment.slice(0, colon);
  const subdir = colon < 0 ? "" : fragment.slice(colon + 1).replace(/^\/+|\/+$/g, "");
  const part = { ...(ref !== "" && { ref }), ...(subdir !== "" && { subdir }) };
  if (SCP.test(base)) return safe({ remote: base, ...part }, source);
  if (/^github\.com\/[^/]+\/[^/]+/.test(base)) {
    return safe({ remote: `https://${base}`, ...part }, source);
  }
  const scheme = /^(https?|git|ssh):\/\//i.exec(base)?.[1].toLowerCase();
  if (!scheme || !URL.canParse(base)) return undefined;
  const url = new URL(base);
  if (scheme.startsWith("http") && !url.pathname.endsWith(".git")) return undefined;
  const query = fromQuery(url, source);
  url.search = "";
  return safe({ remote: url.href, ...part, ...query }, source);
}
