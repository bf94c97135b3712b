/** TLS with a profile's settings (SPEC.md, table TLS) on top of a dialer's streams. */
import { Duplex } from "node:stream";
import { rootCertificates, type TLSSocket } from "node:tls";
import { isIP } from "node:net";
import { fileTrouble, SvcError } from "../../base/errors.ts";
import { pauseBelow } from "../../base/node_hooks.ts";
import type { TlsSettings } from "../profile/types.ts";
import type { Dialer } from "./dialer.ts";

/** PEM texts. */
export interface Material {
  ca?: string;
  cert?: string;
  key?: string;
}

async function readPem(path: string, field: string): Promise<string> {
  let text: string;
  try {
    text = await Deno.readTextFile(path);
  } catch (cause) {
    throw new SvcError("config_invalid", `Cannot read ${field} ${path}: ${fileTrouble(cause)}`, {
      cause,
      help: `correct ${field} of the context`,
    });
  }
  if (text.includes("-----BEGIN ")) return text;
  throw new SvcError("config_invalid", `Cannot read ${field} ${path}: it is not PEM`, {
    help: `correct ${field} of the context`,
  });
}

async function material(settings: TlsSettings): Promise<Material> {
  const read = (field: keyof TlsSettings) =>
    settings[field] === undefined ? undefined : readPem(settings[field] as string, `tls.${field}`);
  const [ca, cert, key] = await Promise.all([
    read("ca-cert"),
    read("client-cert"),
    read("client-key"),
  ]);
  return { ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) };
}

/** Help for a failed handshake, by node's error code. */
const HELP: [RegExp, string][] = [
  [/ALTNAME/, "set tls.server-name to a name that the certificate has"],
  [/EXPIRED/, "renew the server's certificate, or set this machine's clock"],
  [/NOT_YET_VALID/, "set this machine's clock, or the server's"],
  [
    /UNABLE_TO|SELF_SIGNED|DEPTH_ZERO|ISSUER|CERT_/,
    "name the server's CA in tls.ca-cert (svc config set-context NAME --tls-ca-cert FILE)",
  ],
];

function refusal(server: string, cause: unknown): SvcError {
  const { code = "", message = String(cause) } = cause as { code?: string; message?: string };
  const plain = /wrong version number|http request|packet length|InvalidContentType/i.test(message);
  const why = plain ? "what answers does not speak TLS" : message.replace(/\.+$/, "");
  const help = plain
    ? "write the server as http://, or unset ssh-tunnel.remote-tls"
    : HELP.find(([pattern]) => pattern.test(code) || pattern.test(message))?.[1];
  return new SvcError("server_unreachable", `Cannot reach ${server}: ${why}`, {
    cause,
    ...(help && { help }),
    detail: { tls: code || "handshake" },
  });
}

export interface TlsOptions {
  inner: Dialer;
  settings: TlsSettings;
  /** Used instead of the settings' files. */
  pem?: Material;
  /** The server's URL, for errors; the certificate must have its host name. */
  server: string;
}

/** Certificates that are trusted where the profile names none: node's list and the system's. */
async function systemTrust(): Promise<string[]> {
  const files = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
  ];
  for (const file of files) {
    const text = await Deno.readTextFile(file).catch(() => undefined);
    if (text) return [...rootCertificates, text];
  }
  return [...rootCertificates];
}

const hostOf = (server: string) => new URL(server).hostname.replace(/^\[|\]$/g, "");

export interface PeerCertificate {
  /** Common name of the subject, if it has one. */
  name?: string;
  /** Milliseconds since 1970. */
  from: number;
  to: number;
}

/** Waits for the handshake on `stream`. Rejects with what broke it. */
async function handshaken(socket: TLSSocket, stream: Duplex): Promise<void> {
  const ended = Promise.withResolvers<void>();
  socket.once("secureConnect", () => ended.resolve());
  socket.once("error", ended.reject);
  socket.once("close", () => ended.reject(new Error("the connection was closed in the handshake")));
  stream.once("error", ended.reject);
  await ended.promise;
}

/** The certificate that a server presents for a name, verified or not; nothing is sent to the server. */
export async function peerCertificate(
  inner: Dialer,
  server: string,
  serverName?: string,
): Promise<PeerCertificate> {
  const { connect } = await import("node:tls");
  const name = serverName ?? hostOf(server);
  const stream = await inner.dial();
  const socket = connect({
    socket: stream,
    rejectUnauthorized: false,
    ...(!isIP(name) && { servername: name }),
  });
  try {
    await handshaken(socket, stream);
    const { valid_from, valid_to, subject } = socket.getPeerCertificate();
    const common = subject?.CN;
    return {
      from: Date.parse(valid_from),
      to: Date.parse(valid_to),
      ...(typeof common === "string" && { name: common }),
    };
  } finally {
    socket.destroy();
    stream.destroy();
  }
}

/** The handshake's error only says that a certificate is not valid; its dates may tell why. */
async function explained(
  cause: unknown,
  { inner, server }: TlsOptions,
  name: string,
): Promise<SvcError> {
  const { code } = cause as { code?: string };
  if (!code || !/CERT|VERIFY|SIGNED/.test(code) || /ALTNAME/.test(code)) {
    return refusal(server, cause);
  }
  const dates = await peerCertificate(inner, server, name).catch(() => undefined);
  const now = Date.now();
  if (dates && dates.to < now) {
    const message = "the server's certificate has expired";
    return refusal(server, { code: "CERT_HAS_EXPIRED", message });
  }
  if (dates && dates.from > now) {
    const message = "the server's certificate is not valid yet";
    return refusal(server, { code: "CERT_NOT_YET_VALID", message });
  }
  return refusal(server, cause);
}

/** A dialer whose streams are TLS. Throws `config_invalid` for files that cannot be used. */
export async function tlsDialer(options: TlsOptions): Promise<Dialer> {
  const { inner, settings, server } = options;
  const { connect } = await import("node:tls");
  const { ca, cert, key } = options.pem ?? await material(settings);
  const name = settings["server-name"] ?? hostOf(server);
  const trusted = ca ?? await systemTrust();
  const wrap = async (stream: Duplex): Promise<Duplex> => {
    let socket: TLSSocket;
    try {
      socket = connect({
        socket: stream,
        // An IP address cannot be sent as SNI, but the certificate is still checked against it.
        ...(isIP(name) ? { host: name } : { servername: name, host: name }),
        ca: trusted,
        ...(cert && { cert }),
        ...(key && { key }),
        rejectUnauthorized: !settings["insecure-skip-verify"],
        ALPNProtocols: ["http/1.1"],
      });
    } catch (cause) {
      stream.destroy();
      throw refusal(server, cause);
    }
    try {
      await handshaken(socket, stream);
      pauseBelow(socket, stream);
      return socket;
    } catch (cause) {
      socket.destroy();
      stream.destroy();
      throw await explained(cause, options, name);
    }
  };
  return {
    resumes: inner.resumes,
    dial: async () => await wrap(await inner.dial()),
    [Symbol.asyncDispose]: async () => await inner[Symbol.asyncDispose](),
  };
}
