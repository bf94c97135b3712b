/** The `ssh` backend (SPEC.md "Tunnels"): like `ssh -R`, but it reconnects. */
import { SvcError } from "../../../lib/base/errors.ts";
import type { Logger } from "../../../lib/base/log.ts";
import type { OpenTunnel, Tunnel, TunnelRequest } from "../../../lib/tunnel/tunnel.ts";
import { type ParsedKey, parseKey } from "../../../lib/wire/ssh/private_key.ts";
import type { SshSettings } from "./options.ts";
import { sshTarget } from "./target.ts";
import { type Patience, SshTunnel } from "./tunnel.ts";

/** The credential is the text of a private key; no error contains any of it. */
async function keyOf(credential: string | undefined): Promise<ParsedKey | undefined> {
  if (credential === undefined) return undefined;
  const key = await parseKey(`${credential.trim()}\n`);
  if (typeof key === "object" && key.isPrivateKey()) return key;
  const why = key === "locked"
    ? "its private key has a passphrase, and there is nobody to ask"
    : "it is not a private key";
  throw new SvcError("argument_invalid", `Cannot use the tunnel's credential: ${why}`, {
    help: "give the text of a private key without a passphrase, in OpenSSH's or PEM form",
  });
}

export function create(settings: SshSettings, log: Logger, patience?: Patience): Tunnel {
  const target = sshTarget(settings);
  return {
    async open(request: TunnelRequest, signal: AbortSignal): Promise<OpenTunnel> {
      const key = await keyOf(request.credential);
      const { hostname } = request;
      // The port is unchanged: a relay is asked for a host in this way (SPEC "Tunnels", SVC_TUNNEL_SSH_BIND).
      const asked = hostname === undefined
        ? target
        : { ...target, bind: { ...target.bind, host: hostname } };
      return await SshTunnel.open(
        { target: asked, request, log, ...(key && { key }), ...(patience && { patience }) },
        signal,
      );
    },
  };
}
