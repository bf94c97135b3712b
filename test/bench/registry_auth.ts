/**
 * What authentication costs: the same manifest from servers that ask for nothing and for a credential of
 * each kind, plain and through TLS, in turns. Each server's access log is on.
 */
import { generateKeyPairSync } from "node:crypto";
import { join } from "node:path";
import { SignJWT } from "jose";
import { type Server, startServer } from "../e2e/harness.ts";
import { makeAuthority } from "../peers/pki.ts";
import { compare, perSecond, type Target, THOUSAND } from "./registry_compare.ts";
import { MANIFEST, pushImage } from "./registry_image.ts";
import { load, type Tls } from "./registry_load.ts";

const TOKEN = "static-token-of-the-bench-0123456789";
const SECRET = "shared-secret-of-the-bench-0123456789";
const ROUNDS = 5;

/** More than the server remembers: each request's token is one to verify. */
const MANY = 10_000;

interface Row extends Target {
  tokens?: string[];
  tls?: Tls;
}

const claims = (n: number) =>
  new SignJWT({ sub: `user-${n}`, scope: "registry:pull" }).setExpirationTime("1h");

async function compareRows(title: string, rows: Row[]): Promise<void> {
  await compare(
    `GET manifest by tag, 32 connections, ${title}`,
    "req/s",
    rows,
    (target) => {
      const { host, tokens, tls } = rows.find((row) => row === target)!;
      const path = "/v2/bench/app/manifests/v1";
      const job = { method: "GET", path, accept: MANIFEST, ms: 2000, clients: 32 };
      return load({ kind: "requests", host, tokens, tls, ...job });
    },
    { rate: perSecond, per: THOUSAND, rounds: ROUNDS },
  );
}

export async function auth(): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-bench-" });
  await using servers = new AsyncDisposableStack();
  servers.defer(() => Deno.remove(folder, { recursive: true }));
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const pem = join(folder, "jwt.pem");
  await Deno.writeTextFile(pem, publicKey.export({ type: "spki", format: "pem" }) as string);
  const authority = await makeAuthority(folder);
  const tls = { authority, certificate: await authority.issue("server") };
  const alice = await authority.issue("alice");
  const read = (path: string) => Deno.readTextFile(path);
  const trusted: Tls = { ca: await read(authority.cert) };
  const own: Tls = { ...trusted, cert: await read(alice.cert), key: await read(alice.key) };

  /** A server that has the image already, which is pushed while it asks for nothing. */
  const seeded = async (options: Parameters<typeof startServer>[0]): Promise<Server> => {
    const dataDir = join(folder, crypto.randomUUID());
    await using open = await startServer({ dataDir });
    await pushImage(open, "bench/app", 5, 1000);
    await open.stop();
    return servers.use(await startServer({ ...options, dataDir }));
  };
  const row = (server: Server, name: string, more: Partial<Row> = {}): Row => ({
    name,
    host: server.host,
    pid: server.pid,
    data: server.dataDir,
    ...more,
  });
  const env = { SVC_AUTH_TOKEN: TOKEN, SVC_JWT_HS256_SECRET: SECRET, SVC_JWT_PUBLIC_KEY: pem };
  const shared = await claims(0).setProtectedHeader({ alg: "HS256" })
    .sign(new TextEncoder().encode(SECRET));
  const es256 = (n: number) => claims(n).setProtectedHeader({ alg: "ES256" }).sign(privateKey);
  const many: string[] = [];
  for (let n = 0; n < MANY; n++) many.push(await es256(n));

  const open = await seeded({});
  const closed = await seeded({ env });
  await compareRows("plain", [
    row(closed, "static token", { tokens: [TOKEN] }),
    row(closed, "JWT HS256", { tokens: [shared] }),
    row(closed, "JWT ES256", { tokens: [many[0]] }),
    row(closed, "JWT ES256, new", { tokens: many }),
    row(open, "no auth"),
  ]);
  const openTls = await seeded({ tls });
  const clientCa = await seeded({ tls, env, args: ["--tls-client-ca", authority.cert] });
  await compareRows("TLS", [
    row(clientCa, "static token", { tls: trusted, tokens: [TOKEN] }),
    row(clientCa, "client cert", { tls: own }),
    row(openTls, "no auth", { tls: trusted }),
  ]);
}
