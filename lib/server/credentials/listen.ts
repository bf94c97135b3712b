/** The endpoints of one workload, on the loopback of its network namespace. */
import { METADATA_ADDRESS } from "../../api/credentials.ts";
import { SvcError } from "../../base/errors.ts";
import { runOk } from "../../base/process.ts";
import { waitFor } from "../../base/wait_for.ts";
import type { CredentialAsker } from "../../credentials/ask.ts";
import { credentialEndpoint, type EndpointParts } from "../../credentials/endpoint.ts";
import { withinNetns } from "../../sys/netns.ts";

export interface EndpointPlace {
  /** The namespace's file. */
  path: string;
  port: number;
  /** "web-0", for errors. */
  instance: string;
}

const METADATA_PORT = 80;

/** Gives the namespace's loopback the address of the metadata service. Idempotent. */
async function addMetadataAddress({ path, instance }: EndpointPlace): Promise<void> {
  const ip = ["ip", "address", "replace", `${METADATA_ADDRESS}/32`, "dev", "lo"];
  await runOk(`Cannot serve credentials in ${instance}`, "nsenter", [`--net=${path}`, ...ip]);
}

/** Serves until the result is disposed of. Throws `conflict` where the port is in use in the namespace. */
export async function listenBeside(
  place: EndpointPlace,
  { send, ...parts }: Omit<EndpointParts, "send"> & { send: CredentialAsker["send"] },
): Promise<AsyncDisposable> {
  const ending = new AbortController();
  // Who waits for the caller does not hold up the end.
  const get = (name: string) => waitFor(parts.get(name), ending.signal);
  const handler = credentialEndpoint({
    ...{ ...parts, get },
    send: (name, request, path) => send(name, request, path, ending.signal),
  });
  const listen = (hostname: string, port: number) => {
    try {
      return withinNetns(
        place.path,
        () => Deno.serve({ hostname, port, signal: ending.signal, onListen() {} }, handler),
      );
    } catch (error) {
      if (!(error instanceof Deno.errors.AddrInUse)) throw error;
      throw new SvcError(
        "conflict",
        `Cannot serve credentials in ${place.instance}: ${hostname}:${port} is in use there`,
        { cause: error, help: "expose the port that the workload uses; another one is taken then" },
      );
    }
  };
  const servers = [listen("127.0.0.1", place.port)];
  try {
    if (parts.deliveries.some(({ wellKnown }) => wellKnown)) {
      await addMetadataAddress(place);
      servers.push(listen(METADATA_ADDRESS, METADATA_PORT));
    }
  } catch (error) {
    ending.abort();
    throw error;
  }
  return {
    async [Symbol.asyncDispose]() {
      ending.abort(new SvcError("unavailable", "Cannot get a credential: the workload ends"));
      await Promise.all(servers.map(({ finished }) => finished));
    },
  };
}
