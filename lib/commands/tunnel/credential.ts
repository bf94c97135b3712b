/**
 * The credential for a tunnel's backend: from flags, a variable or the profile; else the server uses its own.
 */
import { fileTrouble, SvcError } from "../../base/errors.ts";
import { isLoopback } from "../../client/doctor/engine.ts";
import type { Target } from "../../client/resolve.ts";
import type { Values } from "../../config/load.ts";
import type { Invocation } from "../command.ts";
import type { TUNNEL_CREDENTIAL_OPTIONS } from "../tunnel_options.ts";

/** Bytes of a credential file, at most: no token or key comes near this. */
const LARGEST = 64 * 1024;

export type CredentialInput = Pick<Invocation, "io" | "sources"> & {
  values: Values<typeof TUNNEL_CREDENTIAL_OPTIONS>;
};

async function readFile(
  path: string,
  source: string,
): Promise<{ text: string; mode: number | null }> {
  const refuse = (why: string, cause?: unknown) =>
    new SvcError("argument_invalid", `Cannot read ${source} ${path}: ${why}`, { cause });
  try {
    using file = await Deno.open(path);
    const { isFile, size, mode } = await file.stat();
    if (isFile && size > LARGEST) throw refuse(`it has more than ${LARGEST} bytes`);
    const bytes = new Uint8Array(LARGEST + 1);
    let length = 0;
    for (let got; length <= LARGEST && (got = await file.read(bytes.subarray(length))) !== null;) {
      length += got;
    }
    if (length > LARGEST) throw refuse(`it has more than ${LARGEST} bytes`);
    const text = new TextDecoder().decode(bytes.subarray(0, length)).trim();
    if (text === "") throw refuse("it is empty");
    return { text, mode: isFile ? mode : null };
  } catch (error) {
    if (error instanceof SvcError) throw error;
    throw refuse(fileTrouble(error), error);
  }
}

/**
 * Undefined: the server uses its own. Throws `usage` where both flags are given, `argument_invalid` for a file
 * that cannot be read.
 */
export async function tunnelCredential(
  { io, values, sources }: CredentialInput,
  { settings, server, transport }: Target,
): Promise<string | undefined> {
  const { authtoken, authtokenFile } = values;
  const byFlag = sources?.authtoken === "--authtoken";
  if (byFlag && authtokenFile !== undefined) {
    throw new SvcError(
      "usage",
      "Cannot use --authtoken: it and --authtoken-file exclude each other",
    );
  }
  const stored = settings.tunnel?.["authtoken-file"];
  const [path, source] = authtokenFile !== undefined
    ? [authtokenFile, "--authtoken-file"]
    : authtoken === undefined && stored !== undefined
    ? [stored, "tunnel.authtoken-file"]
    : [];
  if (path === undefined && authtoken === undefined) return undefined;
  if (transport.kind === "direct" && /^http:/.test(server) && !isLoopback(new URL(server).host)) {
    throw new SvcError(
      "argument_invalid",
      `Cannot send the tunnel's credential to ${server}: everybody on the way could read it`,
      {
        help: "use https:// or an SSH tunnel to the server, or SVC_TUNNEL_AUTHTOKEN of the server",
      },
    );
  }
  if (path === undefined) return authtoken;
  const { text, mode } = await readFile(path, source!);
  if (Deno.build.os !== "windows" && mode !== null && (mode & 0o077) !== 0) {
    await io.stderr.write(
      `svc: warning: other users of this machine can read ${path}; chmod 600 makes it yours alone\n`,
    );
  }
  return text;
}
