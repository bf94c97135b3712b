/**
 * The role credential: the endpoints of the workload's credentials, on the loopback that the workload shares with its
 * companion. The caretaker asks the server by name, and the server asks the caller: the caretaker keeps no value.
 */
import { METADATA_ADDRESS } from "../../api/credentials.ts";
import { SvcError } from "../../base/errors.ts";
import { CredentialAsker } from "../../credentials/ask.ts";
import { credentialEndpoint, type EndpointDelivery } from "../../credentials/endpoint.ts";
import type { UpstreamDelivery } from "../../credentials/upstream.ts";
import { invalid, requireMembers } from "../config.ts";
import type { RoleParts, Settings, StartedRole } from "../role.ts";

/** What the server writes into the caretaker's document. */
export interface CredentialSettings {
  port: number;
  deliveries: readonly EndpointDelivery[];
  upstreams: readonly UpstreamDelivery[];
}

function read(settings: Settings): CredentialSettings {
  requireMembers(settings, "credential", ["port", "deliveries", "upstreams"]);
  const { port, deliveries, upstreams } = settings;
  if (!Number.isInteger(port)) throw invalid("roles.credential.port", "expected a port");
  if (!Array.isArray(deliveries) || !Array.isArray(upstreams)) {
    throw invalid("roles.credential", "expected lists of deliveries and upstreams");
  }
  return { port: port as number, deliveries, upstreams };
}

export function start(settings: Settings, { open, signal }: RoleParts): Promise<StartedRole> {
  const { port, deliveries, upstreams } = read(settings);
  if (deliveries.some(({ wellKnown }) => wellKnown)) {
    throw new SvcError(
      "unsupported",
      `Cannot serve credentials at ${METADATA_ADDRESS}: a companion may not give the workload an address`,
      { help: "leave out wellKnown: AWS's SDKs find the endpoint by their variables" },
    );
  }
  const ending = new AbortController();
  const both = AbortSignal.any([signal, ending.signal]);
  const asker = new CredentialAsker({
    open: (kind, fields) => Promise.resolve().then(() => open(kind, fields)),
    ended: signal,
  });
  const handler = credentialEndpoint({
    ...{ deliveries, upstreams },
    get: (name) => asker.get(name),
    send: (name, request, path) => asker.send(name, request, path, both),
  });
  let server: Deno.HttpServer;
  try {
    server = Deno.serve({ hostname: "127.0.0.1", port, signal: both, onListen() {} }, handler);
  } catch (error) {
    if (!(error instanceof Deno.errors.AddrInUse)) throw error;
    throw new SvcError(
      "conflict",
      `Cannot serve credentials: 127.0.0.1:${port} is in use in the workload`,
      { cause: error, help: "expose the port that the workload uses; another one is taken then" },
    );
  }
  return Promise.resolve({
    async [Symbol.asyncDispose]() {
      ending.abort();
      await server.finished;
    },
  });
}
