/** Turns the named contexts of `--build-context` into inputs of a plan. */
import { gitTree } from "./context/git_tree.ts";
import { parseGitUrl } from "./context/git_url.ts";
import { httpTree } from "./context/http_tree.ts";
import { receiveContext } from "./context/receive.ts";
import type { NamedContext } from "./inputs.ts";
import type { TreeSource } from "./plan/graph.ts";
import { contextName, type PlannedContext } from "./plan/plan.ts";

/** A context from an archive that the caller sends; unpacked when the build first needs it. */
function tarTree(stream: ReadableStream<Uint8Array>): TreeSource {
  return {
    identity: () => Promise.resolve(undefined),
    open: async ({ temporary, maxUnpackedBytes, onProgress, signal }) => {
      const folder = await temporary();
      try {
        const context = await receiveContext(stream, {
          directory: `${folder.path}/context`,
          dockerfile: "Dockerfile",
          maxUnpackedBytes,
          onProgress: (bytes) => onProgress("received", bytes),
          signal,
        });
        return {
          ...context.tree,
          [Symbol.asyncDispose]: async () => {
            await context[Symbol.asyncDispose]();
            await folder[Symbol.asyncDispose]();
          },
        };
      } catch (error) {
        await folder[Symbol.asyncDispose]();
        throw error;
      }
    },
  };
}

function plan(label: string, context: NamedContext): PlannedContext {
  switch (context.kind) {
    case "image":
      return { image: context.name };
    case "tar":
      return { label, tree: tarTree(context.stream) };
    case "tree":
      return {
        label,
        tree: {
          identity: () => Promise.resolve(undefined),
          open: ({ signal }) => context.open(signal),
        },
      };
    case "url": {
      const git = parseGitUrl(context.url);
      return { label, tree: git ? gitTree(git) : httpTree(context.url, { unpack: true }) };
    }
  }
}

/** Throws `dockerfile_invalid` for a malformed git address. */
export function planContexts(
  contexts: Record<string, NamedContext> = {},
): Map<string, PlannedContext> {
  return new Map(
    Object.entries(contexts).map(([name, context]) => [contextName(name), plan(name, context)]),
  );
}
