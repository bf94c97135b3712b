/** The server that runs a build, and the image names there (SVC_BUILDER, SVC_REGISTRY, registry-host). */
import { SvcError } from "../../base/errors.ts";
import type { Client } from "../../client/client.ts";
import { formatReference, isRegistry, parseReference } from "../../oci/reference.ts";
import { connect, type Connecting, openConnection } from "../connect.ts";

export interface BuildTarget {
  client: Client;
  tags: string[];
}

const withoutScheme = (registry: string) => registry.replace(/^https?:\/\//, "");

/**
 * A separate builder does not know the server's registry, which workloads pull from: names without a registry
 * get that one. Throws `config_invalid` or `reference_invalid`.
 */
export async function buildTarget(
  invocation: Connecting,
  { builder, registry, tags = [] }: { builder?: string; registry?: string; tags?: string[] },
): Promise<BuildTarget> {
  if (registry !== undefined && !isRegistry(withoutScheme(registry))) {
    throw new SvcError(
      "config_invalid",
      `Cannot use SVC_REGISTRY=${registry}: expected host[:port]`,
    );
  }
  const { client: server, target } = await openConnection(invocation);
  const bare = tags.some((tag) => parseReference(tag).registry === undefined);
  let host = registry ?? target.registryHost;
  let client = server;
  if (builder !== undefined) {
    if (bare) host ??= (await server.json("GET /info")).registry;
    client = await connect({
      ...invocation,
      values: { ...invocation.values, server: builder.replace(/^ws(s?):\/\//, "http$1://") },
      sources: { ...invocation.sources, server: "SVC_BUILDER" },
    });
  }
  if (host === undefined) return { client, tags };
  const own = withoutScheme(host);
  return {
    client,
    tags: tags.map((tag) => formatReference({ registry: own, ...parseReference(tag) })),
  };
}
