/** Where a build runs, and what the names of its image become there (SVC_BUILDER, SVC_REGISTRY, registry-host). */
import type { ServerInfo } from "../../api/info.ts";
import { SvcError } from "../../base/errors.ts";
import type { Client } from "../../client/client.ts";
import { formatReference, isRegistry, parseReference } from "../../oci/reference.ts";
import { connect, type Connecting, openConnection } from "../connect.ts";

export interface Place {
  client: Client;
  tags: string[];
}

const withoutScheme = (registry: string) => registry.replace(/^https?:\/\//, "");

/**
 * A builder of its own does not know the registry that the server's workloads pull from: names without
 * one get the server's. Throws `config_invalid` or `reference_invalid`.
 */
export async function placeOf(
  invocation: Connecting,
  { builder, registry, tags = [] }: { builder?: string; registry?: string; tags?: string[] },
): Promise<Place> {
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
    if (bare) host ??= (await server.json<ServerInfo>("GET", "/info")).registry;
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
