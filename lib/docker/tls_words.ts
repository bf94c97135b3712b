/** What a handshake that fails tells of certificates, in words that say whose it is and what to do. */

export const TLS_EXPIRED = "its certificate has expired";
export const TLS_NOT_YET = "its certificate is not valid yet";

/** In the words of node and of Deno's TLS: the daemon's certificate is none that ca.pem vouches for. */
const DISTRUST = /unable to (verify|get)|self.signed|UnknownIssuer|NotValidForName/i;

/** The alerts by which a daemon refuses what it was shown. */
const REFUSED =
  /fatal alert: (\w*Certificate\w*|UnknownCA|AccessDenied|HandshakeFailure|DecryptError)/;

const OWN =
  "put a cert.pem and key.pem that the daemon's authority has signed into DOCKER_CERT_PATH";

/** Undefined: the error tells nothing of certificates. */
export function tlsWords(error: unknown): { why: string; help: string } | undefined {
  const text = error instanceof Error ? error.message : String(error);
  if (text === TLS_EXPIRED || text === TLS_NOT_YET) {
    return { why: text, help: "renew the daemon's certificate, or set this machine's clock" };
  }
  if (/altnames/.test(text)) {
    return {
      why: "its certificate is for other names than the one in DOCKER_HOST",
      help: "name the daemon in DOCKER_HOST as its certificate does, or give it one for this name",
    };
  }
  if (isDistrust(error)) {
    return {
      why: "its certificate is not of the authority in ca.pem",
      help: "put the daemon's authority into DOCKER_CERT_PATH as ca.pem",
    };
  }
  const [, alert] = REFUSED.exec(text) ?? [];
  if (alert === "CertificateExpired") {
    return { why: "it says that this server's certificate has expired", help: OWN };
  }
  return alert ? { why: `it refuses this server's certificate (${alert})`, help: OWN } : undefined;
}

export function isDistrust(error: unknown): boolean {
  return error instanceof Error && DISTRUST.test(error.message);
}
