/** Short-lived sessions from an SSH key: challenge, proof, session (lib/api/auth.ts). */
import type { ChallengeRequest, SessionResponse } from "../../api/auth.ts";
import { SSHSIG_NAMESPACE } from "../../api/auth.ts";
import { SvcError } from "../../base/errors.ts";
import type { Client } from "../client.ts";
import type { Signer } from "./signer.ts";

export interface SessionOptions {
  /** A client that sends no credential. */
  client: Client;
  signer: Signer;
  scope?: string;
  ttl?: string;
}

/** Throws what the server says; `unauthorized` where the key is not enrolled. */
export async function mintSession(options: SessionOptions): Promise<SessionResponse> {
  const { client, signer, scope, ttl } = options;
  const wanted: ChallengeRequest = {
    fingerprint: signer.fingerprint,
    ...(scope && { scope }),
    ...(ttl && { ttl }),
  };
  const { challenge, namespace } = await client.json("POST /auth/challenge", { json: wanted });
  // A server that chose the namespace could get other documents signed.
  if (namespace !== SSHSIG_NAMESPACE) {
    throw new SvcError(
      "upstream_failed",
      `Cannot log in to ${client.server}: it wants a signature for ${JSON.stringify(namespace)}`,
      { help: "use an svc of the server's version" },
    );
  }
  const signature = await signer.sign(challenge, SSHSIG_NAMESPACE);
  try {
    return await client.json("POST /auth/session", { json: { challenge, signature } });
  } catch (cause) {
    if (!(cause instanceof SvcError) || cause.code !== "unauthorized") throw cause;
    throw new SvcError(
      "unauthorized",
      `Cannot log in to ${client.server}: it does not take the key ${signer.fingerprint}`,
      {
        cause,
        help: "have it enrolled there: svc auth keys add, or SVC_AUTHORIZED_KEYS of the server",
      },
    );
  }
}
