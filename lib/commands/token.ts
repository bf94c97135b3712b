/** `svc token issue`: a short-lived token for use by another program. */
import { SvcError } from "../base/errors.ts";
import type { Connection } from "../client/connection.ts";
import { exchangeToken } from "../client/credentials/token_exchange.ts";
import { createClient } from "../client/client.ts";
import type { Invocation } from "./command.ts";
import { openConnection } from "./connect.ts";
import type { TOKEN_OPTIONS } from "./login_options.ts";
import { terminalPrompt } from "./prompt.ts";

type TokenInvocation = Invocation<typeof TOKEN_OPTIONS>;

interface Issued {
  token: string;
  scope: string;
  expiresAt: string;
}

async function session(
  { target: { server, credential }, way }: Connection,
  { values, env, io }: TokenInvocation,
): Promise<Issued | undefined> {
  if (credential.kind !== "key") return undefined;
  const [{ openSigner }, { mintSession }] = await Promise.all([
    import("../client/credentials/signer.ts"),
    import("../client/credentials/session.ts"),
  ]);
  const { settings } = credential;
  const signer = await openSigner({
    settings,
    env,
    prompt: terminalPrompt(io, env),
    signal: io.signal,
  });
  const { token, scope, expiresAt } = await mintSession({
    client: createClient({ server, ...(way.http && { way }), signal: io.signal }),
    signer,
    scope: values.scope ?? settings.scope,
    ttl: values.ttl ?? settings.ttl,
  });
  return { token, scope, expiresAt };
}

async function exchanged(connection: Connection, { values, io }: TokenInvocation): Promise<Issued> {
  const { target: { server, exchange }, way, credentials } = connection;
  const subject = await credentials.token();
  if (!subject) {
    throw new SvcError(
      "unauthorized",
      `Cannot issue a token for ${server}: there is no credential to issue it from`,
    );
  }
  const scope = values.scope ?? exchange?.scope;
  const issued = await exchangeToken({
    server,
    base: way.base,
    http: way.http,
    subject,
    scope,
    signal: io.signal,
  });
  if (!issued) {
    throw new SvcError(
      "unsupported",
      `Cannot issue a token for ${server}: it has no token exchange`,
      {
        help: "use a context with key-auth, or a server that verifies JWTs",
      },
    );
  }
  return {
    token: issued.access_token,
    scope: issued.scope,
    expiresAt: new Date(Date.now() + issued.expires_in * 1000).toISOString(),
  };
}

export async function run(invocation: TokenInvocation): Promise<number> {
  const { io, values, positionals: [verb] } = invocation;
  if (verb !== "issue") {
    throw new SvcError("usage", `Cannot run token ${verb}: the verb is issue`, {
      help: "usage: svc token issue [OPTIONS]",
    });
  }
  const connection = await openConnection(invocation);
  const issued = await session(connection, invocation) ?? await exchanged(connection, invocation);
  if (values.output === "json") await io.stdout.write(JSON.stringify(issued) + "\n");
  else {
    await io.stdout.write(issued.token + "\n");
    await io.stderr.write(`scope ${issued.scope}, until ${issued.expiresAt}\n`);
  }
  return 0;
}
