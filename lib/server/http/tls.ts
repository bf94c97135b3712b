/** HTTPS: certificate files that may be replaced while the server runs, and client certificates. */
import type { Server as SecureServer } from "node:https";
import type { Socket } from "node:net";
import type { SecureContextOptions, TLSSocket } from "node:tls";
import { readCertificates, readPrivateKey } from "../../base/certificates.ts";
import { fileTrouble, SvcError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { belowTls } from "../../base/node_hooks.ts";
import { type FileWatch, watchFiles } from "../../base/watch_files.ts";

/** PEM texts. */
export interface TlsMaterial {
  /** The server's certificate and its chain. */
  cert: string;
  key: string;
  /** Authorities that verify client certificates. Absent: the server asks for none. */
  clientCa?: string;
}

/** Paths: SVC_TLS_CERT, SVC_TLS_KEY, SVC_TLS_CLIENT_CA. */
export interface TlsPaths {
  cert: string;
  key: string;
  clientCa?: string;
}

/** A client that connects and does not finish its handshake is dropped after this long. */
const HANDSHAKE_MS = 20_000;

/** Node accepts any text as a certificate and then fails each handshake: so the files are checked first. */
function check(paths: TlsPaths, { cert, key, clientCa }: TlsMaterial): void {
  const of = <T>(path: string, work: () => T): T => {
    try {
      return work();
    } catch (error) {
      throw new Error(`${path}: ${(error as Error).message}`);
    }
  };
  const [leaf] = of(paths.cert, () => readCertificates(cert));
  of(paths.key, () => {
    if (leaf.checkPrivateKey(readPrivateKey(key))) return;
    throw new Error(`it does not belong to ${paths.cert}`);
  });
  if (clientCa !== undefined) of(paths.clientCa!, () => readCertificates(clientCa));
}

async function read(paths: TlsPaths): Promise<TlsMaterial> {
  const text = async (path: string) => {
    try {
      return await Deno.readTextFile(path);
    } catch (error) {
      throw new Error(`${path}: ${fileTrouble(error)}`);
    }
  };
  const material: TlsMaterial = {
    cert: await text(paths.cert),
    key: await text(paths.key),
    clientCa: paths.clientCa === undefined ? undefined : await text(paths.clientCa),
  };
  check(paths, material);
  return material;
}

/**
 * Warns of a certificate that is not valid now. Clients refuse it, often without a reason. The server starts
 * all the same: its own clock may be wrong.
 */
function warnOfTime({ cert: path }: TlsPaths, { cert }: TlsMaterial, log: Logger): void {
  const [{ validFrom, validTo }] = readCertificates(cert);
  const now = Date.now();
  if (now >= Date.parse(validTo)) {
    log.warn("the TLS certificate has expired: clients refuse it", { cert: path, validTo });
  } else if (now < Date.parse(validFrom)) {
    log.warn("the TLS certificate is not valid yet: clients refuse it", { cert: path, validFrom });
  }
}

export interface TlsFiles extends Disposable {
  /** The last files that were good. */
  readonly material: TlsMaterial;
  /** `apply` is called with each good set of files that replaces the earlier one. */
  follow(apply: (material: TlsMaterial) => void): void;
  /** Reads the files now instead of within a second. */
  check(): Promise<void>;
}

/**
 * Reads the files, and looks for changes every `everyMs` (default: a second). Throws `config_invalid` where
 * they are bad at the start.
 */
export async function openTlsFiles(
  paths: TlsPaths,
  { log, everyMs }: { log: Logger; everyMs?: number },
): Promise<TlsFiles> {
  const followers: ((material: TlsMaterial) => void)[] = [];
  const names = [paths.cert, paths.key, ...paths.clientCa === undefined ? [] : [paths.clientCa]];
  const watch: FileWatch = await watchFiles(names, {
    everyMs,
    onChange: async () => {
      try {
        material = await read(paths);
        for (const apply of followers) apply(material);
        log.info("read the TLS files again", { cert: paths.cert });
        warnOfTime(paths, material, log);
      } catch (error) {
        // Certificate and key are two files: while only one is replaced, they do not match.
        log.warn("cannot use the changed TLS files; the last good ones stay in use", { error });
      }
    },
  });
  let material: TlsMaterial;
  try {
    material = await read(paths);
  } catch (cause) {
    watch[Symbol.dispose]();
    throw new SvcError("config_invalid", `Cannot serve HTTPS: ${(cause as Error).message}`, {
      cause,
      help: "correct --tls-cert, --tls-key or --tls-client-ca",
    });
  }
  warnOfTime(paths, material, log);
  return {
    get material() {
      return material;
    },
    follow: (apply) => void followers.push(apply),
    check: () => watch.check(),
    [Symbol.dispose]: () => watch[Symbol.dispose](),
  };
}

/** The options for node. A client certificate is requested where there are authorities; it may be missing. */
export function secureOptions({ cert, key, clientCa }: TlsMaterial) {
  const context: SecureContextOptions = { cert, key, ca: clientCa, minVersion: "TLSv1.2" };
  return {
    ...context,
    handshakeTimeout: HANDSHAKE_MS,
    requestCert: clientCa !== undefined,
    // A bad certificate is refused later, by an HTTP answer.
    rejectUnauthorized: false,
  };
}

/** Tracks connections whose handshake is not finished; the result closes them. */
export function trackHandshakes(server: SecureServer): () => void {
  const open = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    open.add(socket);
    socket.once("close", () => open.delete(socket));
  });
  server.on("secureConnection", (socket: TLSSocket) => {
    const below = belowTls(socket);
    if (below) open.delete(below);
  });
  return () => open.forEach((socket) => socket.destroy());
}
