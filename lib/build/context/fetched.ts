/** A build context that the server fetches: a git repository, an archive or a Dockerfile behind a URL. */
import { SvcError } from "../../base/errors.ts";
import { readRootedText } from "../../sys/rooted_file.ts";
import { parseIgnore } from "../parse/ignore.ts";
import type { TreeSource } from "../plan/graph.ts";
import { gitTree } from "./git_tree.ts";
import { parseGitUrl } from "./git_url.ts";
import { httpTree } from "./http_tree.ts";
import { fileNameOf, isHttpUrl } from "./http_url.ts";
import type { Context } from "./receive.ts";
import type { Tree } from "./tree.ts";
import { applyRules, MAX_RULES } from "./unpack_context.ts";

/** The source of a context URL. Throws `argument_invalid` where the text is not a URL. */
export function fetchedSource(url: string): TreeSource {
  const git = parseGitUrl(url);
  if (git) return gitTree(git);
  if (isHttpUrl(url)) return httpTree(url, { unpack: true });
  throw new SvcError(
    "argument_invalid",
    `Cannot build from ${url}: it is neither a URL nor a git repository`,
  );
}

/**
 * The tree as a context, its .dockerignore applied. Where the URL is not an archive, the file is the Dockerfile
 * itself and there is nothing to copy. The caller that opened the tree disposes of it.
 */
export async function fetchedContext(url: string, tree: Tree, path: string): Promise<Context> {
  const { dockerfile, ignore } = await applyRules(tree.root, path, new Map());
  const text = dockerfile ??
    (parseGitUrl(url) ? undefined : readRootedText(tree.root, fileNameOf(url), MAX_RULES));
  return {
    tree: { root: tree.root, ownersKept: false },
    received: 0,
    ignore: parseIgnore(ignore),
    ...(text !== undefined && { dockerfile: text }),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}
