/**
 * Google-style storage in this process: there is no such service among Debian's or npm's packages. It keeps
 * to the rules of the JSON API that the store depends on: tokens that a service account's key signed,
 * preconditions by generation, joins of at most 32 whole objects, pages, ranges, V4 signed addresses.
 */
import { Buffer } from "node:buffer";
import { createHash, createVerify, generateKeyPairSync } from "node:crypto";

const BUCKET = "svc-test";
const EMAIL = "svc@project.iam.gserviceaccount.com";
/** Entries of a page, so that going on is tested. */
const PAGE = 50;

interface Held {
  bytes: Uint8Array;
  generation: number;
  updated: Date;
}

class Refusal extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

export interface GcsServer extends AsyncDisposable {
  /** A value of SVC_STORAGE in a folder that nobody else uses. */
  location: () => string;
  /** The file that GOOGLE_APPLICATION_CREDENTIALS names. */
  credentials: string;
  /** Keys that begin so. */
  keys: (prefix: string) => string[];
  /**
   * Asked at every request: refuses it before or after it took effect. For a server that dies: what it sends
   * from then on is refused.
   */
  fault: (() => "before" | "after" | undefined) | undefined;
  /** Requests by signed addresses so far. */
  signed: () => number;
}

const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
const fromBase64 = (part: string) => Buffer.from(part, "base64url");

export async function startGcs(): Promise<GcsServer> {
  const { publicKey, privateKey } = generateKeyPairSync("rsa", {
    modulusLength: 2048,
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
  });
  const dir = await Deno.makeTempDir({ prefix: "svc-gcs-" });
  const keyFile = `${dir}/account.json`;
  await Deno.writeTextFile(
    keyFile,
    JSON.stringify({
      type: "service_account",
      project_id: "project",
      private_key_id: "k1",
      private_key: privateKey,
      client_email: EMAIL,
      client_id: "1",
    }),
  );
  const objects = new Map<string, Held>();
  let generations = 1000;
  let signedRequests = 0;

  const valid = (data: string | Uint8Array, signature: Uint8Array) =>
    createVerify("RSA-SHA256").update(data).verify(publicKey, signature);

  const authorize = (request: Request) => {
    const token = /^Bearer (.+)$/.exec(request.headers.get("authorization") ?? "")?.[1] ?? "";
    const [head, body, signature] = token.split(".");
    if (!signature || !valid(`${head}.${body}`, fromBase64(signature))) {
      throw new Refusal(401, "Invalid Credentials");
    }
    const claims = JSON.parse(text(fromBase64(body))) as {
      iss: string;
      scope: string;
      exp: number;
    };
    if (claims.iss !== EMAIL || claims.exp < Date.now() / 1000) throw new Refusal(401, "expired");
    if (!/devstorage|cloud-platform/.test(claims.scope)) throw new Refusal(403, "scope");
  };

  /** Throws (403) where a V4 signed address is not, or no longer, good. */
  const verifySigned = (request: Request, url: URL) => {
    const query = new Map(url.searchParams);
    const signature = query.get("X-Goog-Signature") ?? "";
    query.delete("X-Goog-Signature");
    const canonical = [...query].map(([name, value]) => [name, value].map(encodeURIComponent))
      .map(([name, value]) => `${name}=${value}`).sort().join("&");
    // The SDK signs the host without its port.
    const demand = [
      ...[request.method, url.pathname, canonical, `host:${url.hostname}\n`, "host"],
      "UNSIGNED-PAYLOAD",
    ].join("\n");
    const date = query.get("X-Goog-Date") ?? "";
    const hash = createHash("sha256").update(demand).digest("hex");
    const scope = query.get("X-Goog-Credential")!.slice(EMAIL.length + 1);
    const data = `GOOG4-RSA-SHA256\n${date}\n${scope}\n${hash}`;
    if (!valid(data, Buffer.from(signature, "hex"))) {
      throw new Refusal(403, "SignatureDoesNotMatch");
    }
    const at = date.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, "$1-$2-$3T$4:$5:$6Z");
    const ends = Date.parse(at) + Number(query.get("X-Goog-Expires")) * 1000;
    if (!(ends > Date.now())) throw new Refusal(400, "ExpiredToken");
    signedRequests++;
  };

  const find = (name: string, generation?: string | null): Held => {
    const held = objects.get(name);
    if (!held) throw new Refusal(404, `No such object: ${BUCKET}/${name}`);
    if (generation && generation !== String(held.generation)) {
      throw new Refusal(412, "At least one of the pre-conditions you specified did not hold.");
    }
    return held;
  };
  const store = (name: string, bytes: Uint8Array, condition: string | null) => {
    const now = objects.get(name)?.generation ?? 0;
    if (condition !== null && condition !== String(now)) {
      throw new Refusal(412, "At least one of the pre-conditions you specified did not hold.");
    }
    objects.set(name, { bytes, generation: ++generations, updated: new Date() });
    return Response.json(meta(name));
  };
  const meta = (name: string) => {
    const { bytes, generation, updated } = find(name);
    return {
      name,
      size: String(bytes.length),
      generation: String(generation),
      updated: updated.toISOString(),
    };
  };

  const download = (request: Request, held: Held): Response => {
    const { bytes, generation, updated } = held;
    const headers = new Headers({
      "content-type": "application/octet-stream",
      "x-goog-generation": String(generation),
      "last-modified": updated.toUTCString(),
    });
    const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.get("range") ?? "");
    if (!range) return new Response(bytes.slice(), { headers });
    const start = Number(range[1]);
    if (start >= bytes.length) throw new Refusal(416, "Request range not satisfiable");
    const end = Math.min(bytes.length - 1, range[2] === "" ? Infinity : Number(range[2]));
    headers.set("content-range", `bytes ${start}-${end}/${bytes.length}`);
    return new Response(bytes.slice(start, end + 1), { status: 206, headers });
  };

  const list = (query: URLSearchParams): Response => {
    const prefix = query.get("prefix") ?? "";
    const delimiter = query.get("delimiter");
    const from = query.get("startOffset") ?? "";
    const last = query.get("pageToken") ? atob(query.get("pageToken")!) : "";
    const most = Math.min(PAGE, Number(query.get("maxResults") ?? PAGE));
    const items: unknown[] = [];
    const prefixes: string[] = [];
    let name = "";
    for (const key of [...objects.keys()].sort()) {
      if (!key.startsWith(prefix) || key < from) continue;
      const slash = delimiter ? key.indexOf(delimiter, prefix.length) : -1;
      const next = slash >= 0 ? key.slice(0, slash + 1) : key;
      if (next <= last || next === name) continue;
      if (items.length + prefixes.length === most) {
        return Response.json({ items, prefixes, nextPageToken: btoa(name) });
      }
      name = next;
      if (slash >= 0) prefixes.push(next);
      else items.push(meta(key));
    }
    return Response.json({ items, prefixes });
  };

  const compose = async (request: Request, to: string, query: URLSearchParams) => {
    const { sourceObjects } = await request.json() as {
      sourceObjects: { name: string; objectPreconditions?: { ifGenerationMatch?: string } }[];
    };
    if (sourceObjects.length < 1 || sourceObjects.length > 32) {
      throw new Refusal(400, "The number of source components provided is not between 1 and 32");
    }
    const parts = sourceObjects.map(({ name, objectPreconditions }) =>
      find(name, objectPreconditions?.ifGenerationMatch).bytes
    );
    return store(to, Buffer.concat(parts), query.get("ifGenerationMatch"));
  };

  const answer = async (request: Request): Promise<Response> => {
    const url = new URL(request.url);
    const { pathname, searchParams: query } = url;
    if (query.has("X-Goog-Signature")) {
      verifySigned(request, url);
      return download(request, find(decodeURIComponent(pathname.slice(BUCKET.length + 2))));
    }
    authorize(request);
    const [, upload, bucket, encoded, action] =
      /^(\/upload)?\/storage\/v1\/b\/([^/]+)\/o(?:\/([^/]+)(\/compose)?)?$/.exec(pathname) ?? [];
    if (bucket !== BUCKET) throw new Refusal(404, "The specified bucket does not exist.");
    const condition = query.get("ifGenerationMatch");
    const name = encoded === undefined ? undefined : decodeURIComponent(encoded);
    if (upload && request.method === "POST" && query.get("uploadType") === "media") {
      const bytes = new Uint8Array(await request.arrayBuffer());
      return store(query.get("name")!, bytes, condition);
    }
    if (name === undefined && request.method === "GET") return list(query);
    if (name !== undefined && action && request.method === "POST") {
      return await compose(request, name, query);
    }
    if (name !== undefined && request.method === "DELETE") {
      find(name, condition);
      objects.delete(name);
      return new Response(null, { status: 204 });
    }
    if (name !== undefined && request.method === "GET") {
      const held = find(name, condition);
      return query.get("alt") === "media" ? download(request, held) : Response.json(meta(name));
    }
    throw new Refusal(400, "Not this API");
  };

  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    async (request) => {
      try {
        const fault = peer.fault?.();
        if (fault === "before") throw new Refusal(400, "fault");
        const response = await answer(request);
        if (fault === undefined) return response;
        await response.body?.cancel();
        throw new Refusal(400, "fault");
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        if (!request.bodyUsed) await request.body?.cancel();
        const { status: code, message } = error;
        if (new URL(request.url).searchParams.get("alt") === "media") {
          return new Response(message, { status: code });
        }
        return Response.json({ error: { code, message } }, { status: code });
      }
    },
  );
  const endpoint = `http://127.0.0.1:${server.addr.port}`;
  const peer: GcsServer = {
    fault: undefined,
    location: () => `gs://${BUCKET}/${crypto.randomUUID()}?${new URLSearchParams({ endpoint })}`,
    credentials: keyFile,
    keys: (prefix) => [...objects.keys()].filter((key) => key.startsWith(prefix)).sort(),
    signed: () => signedRequests,
    async [Symbol.asyncDispose]() {
      await server.shutdown();
      await Deno.remove(dir, { recursive: true });
    },
  };
  return peer;
}
