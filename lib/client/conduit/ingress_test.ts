/** The rows of SPEC.md's table "Ingress (inside conduit)", emulated, with workloads in memory. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { connect as connectTcp, type Socket } from "node:net";
import { join } from "node:path";
import { connect } from "node:tls";
import type { IngressRoute } from "../../api/ingress.ts";
import { hasOpenssl, makeAuthority } from "../../../test/peers/pki.ts";
import { SvcError } from "../../base/errors.ts";
import { duplexPair } from "../../wire/testing.ts";
import { type Conduit, type Endpoint, openConduit } from "./conduit.ts";
import { type IngressOptions, prepareIngress } from "./ingress.ts";
import type { Services } from "./services.ts";

const ignore = !hasOpenssl();

/** Workloads that say who was asked, by whom, for what. */
const services: Services = {
  async dial(name, port) {
    if (name === "gone") throw new SvcError("not_found", `Cannot dial ${name}: it is not there`);
    const [theirs, ours] = duplexPair();
    void (async () => {
      let head = "";
      for (let bytes; !head.includes("\r\n\r\n") && (bytes = await theirs.read());) {
        head += Buffer.from(bytes).toString("latin1");
      }
      const [, path] = head.split(" ");
      const proto = /^x-forwarded-proto: (\w+)/im.exec(head)?.[1];
      const body = `${name}:${port} ${path} ${proto}`;
      const text = `HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
      await theirs.write(Buffer.from(text, "latin1"));
      await theirs.closeWrite();
    })().catch(() => {/* whoever asked has gone */});
    return await Promise.resolve(ours);
  },
  list: () => Promise.resolve([]),
};

const route = (host: string, deployment: string, path = "/"): IngressRoute => ({
  ...{ host, path, pathType: "Prefix", deployment, port: 8080, tls: false },
});

const DEPLOYMENTS = [
  { name: "web", ports: [], ingress: [route("app.test", "web"), route("*.wild.test", "web")] },
  { name: "api", ports: [], ingress: [route("app.test", "api", "/api")] },
  { name: "gone", ports: [], ingress: [route("gone.test", "gone")] },
];

interface Opened extends AsyncDisposable {
  conduit: Conduit;
  warnings: string[];
  folder: string;
}

/** A conduit with what the settings say; `dir` is where the profile lies. */
async function open(
  dir: string,
  settings: IngressOptions["settings"],
  { mode = "port-forward", deployments = DEPLOYMENTS } = {},
): Promise<Opened> {
  const warnings: string[] = [];
  const warn = (text: string) => void warnings.push(text);
  const ingress = await prepareIngress({
    settings,
    profilePath: join(dir, "config.yaml"),
    env: {},
    warn,
    signal: new AbortController().signal,
  });
  const conduit = await openConduit({
    ...{ mode, services, deployments, ingress, warn },
    settings: { socks5: { listen: "127.0.0.1:0" } },
  });
  return {
    conduit,
    warnings,
    folder: dir,
    async [Symbol.asyncDispose]() {
      await conduit[Symbol.asyncDispose]();
      await ingress?.[Symbol.asyncDispose]();
    },
  };
}

type Url = Extract<Endpoint, { kind: "ingress" }>;

const urlsOf = ({ conduit }: Opened) =>
  conduit.endpoints.filter((one): one is Url => one.kind === "ingress");

/** Where one scheme's listener is. */
function at(opened: Opened, scheme: string): [host: string, port: number] {
  const url = urlsOf(opened).find(({ url }) => url.startsWith(`${scheme}:`))!;
  const [host, port] = url.address.split(":");
  return [host, Number(port)];
}

/** One request on a socket, and everything that comes back. */
function exchange(socket: Socket, host: string, path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = "";
    socket.on("data", (data: Uint8Array) => text += Buffer.from(data).toString("latin1"));
    socket.once("error", reject);
    socket.once("close", () => resolve(text));
    socket.write(`GET ${path} HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`);
  });
}

const plain = (opened: Opened, host: string, path = "/") => {
  const [address, port] = at(opened, "http");
  return exchange(connectTcp(port, address), host, path);
};

async function secure(opened: Opened, host: string, ca: string, path = "/"): Promise<string> {
  const [address, port] = at(opened, "https");
  const socket = connect({ host: address, port, servername: host, ca });
  await new Promise<void>((resolve, reject) => {
    socket.once("secureConnect", resolve);
    socket.once("error", reject);
  });
  return await exchange(socket, host, path);
}

async function inFolder(work: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await work(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test({
  name: "Ingress rows: mode emulate, ca-file and ca-key-file generated, certificates by SNI",
  ignore,
}, async () => {
  await inFolder(async (folder) => {
    const own = await makeAuthority(folder);
    const leaf = await own.issue("leaf", { names: ["DNS:app.test"] });
    await Deno.chmod(leaf.key, 0o600);
    const certificates = [{ certificate: leaf.cert, key: leaf.key }];
    await using opened = await open(folder, { mode: "emulate", certificates });
    assert.match(await plain(opened, "app.test"), /^HTTP\/1.1 200 [^]*web:8080 \/ http$/);
    assert.match(await plain(opened, "app.test", "/api/x"), /api:8080 \/api\/x http$/);
    assert.match(await plain(opened, "a.wild.test"), /web:8080 \/ http$/);
    assert.match(await plain(opened, "far.test"), /^HTTP\/1.1 404 /);
    const ca = await Deno.readTextFile(own.cert);
    assert.match(await secure(opened, "app.test", ca, "/api"), /api:8080 \/api https$/);
    await assert.rejects(secure(opened, "a.wild.test", ca));
    // One of svc's own for the names without a rule, which is said.
    const path = join(folder, "ingress-ca", "ca.pem");
    const fallback = await Deno.readTextFile(path);
    assert.match(await secure(opened, "a.wild.test", fallback), /web:8080 \/ https$/);
    assert.equal(opened.warnings.filter((text) => text.includes(path)).length, 1);
    assert.match(await plain(opened, "gone.test"), /^HTTP\/1.1 503 /);
    assert.match(opened.warnings.at(-1)!, /Cannot dial gone/);
    assert.equal(opened.warnings.length, 2);
    const urls = urlsOf(opened).map(({ url }) => url.replace(/:\d+/, ""));
    assert.deepEqual(urls, [
      ...["http://app.test/", "https://app.test/", "http://*.wild.test/", "https://*.wild.test/"],
      ...["http://app.test/api", "https://app.test/api", "http://gone.test/", "https://gone.test/"],
    ]);
  });
});

Deno.test({
  name: "Ingress rows: ca-file and ca-key-file sign for names without a rule, and are checked",
  ignore,
}, async () => {
  await inFolder(async (folder) => {
    const own = await makeAuthority(folder);
    await Deno.chmod(own.key, 0o600);
    const files = { "ca-file": own.cert, "ca-key-file": own.key };
    await using opened = await open(folder, { mode: "emulate", ...files });
    const ca = await Deno.readTextFile(own.cert);
    assert.match(await secure(opened, "app.test", ca), /web:8080 \/ https$/);
    assert.deepEqual(opened.warnings, []);
    // Nothing was made.
    await assert.rejects(Deno.stat(join(folder, "ingress-ca")), Deno.errors.NotFound);
    const wrong = { "ca-file": own.cert, "ca-key-file": own.cert };
    await assert.rejects(
      open(folder, { mode: "emulate", ...wrong }),
      /Cannot use conduit\.ingress\.ca-key-file/,
    );
  });
});

Deno.test("Ingress rows: mode off, or nothing with ingress: nothing is opened", async () => {
  await inFolder(async (folder) => {
    for (const mode of [undefined, "", "off"]) {
      await using opened = await open(folder, { ...(mode !== undefined && { mode }) });
      assert.deepEqual(opened.conduit.endpoints, []);
    }
    const deployments = [{ name: "web", ports: [], ingress: [] }];
    await using opened = await open(folder, { mode: "emulate" }, { deployments });
    assert.deepEqual(opened.conduit.endpoints, []);
    assert.deepEqual([...Deno.readDirSync(folder)], []);
  });
});

/** A connection through a SOCKS5 proxy. */
async function through(address: string, host: string, port: number): Promise<Socket> {
  const [proxy, at] = address.split(":");
  const socket = connectTcp(Number(at), proxy);
  const read = (size: number) =>
    new Promise<Uint8Array>((resolve, reject) => {
      const look = () => {
        const bytes = socket.read(size) as Uint8Array | null;
        if (bytes) resolve(bytes);
        else socket.once("readable", look);
      };
      socket.once("error", reject);
      look();
    });
  socket.write(Uint8Array.of(5, 1, 0));
  await read(2);
  const name = Buffer.from(host, "latin1");
  socket.write(
    Buffer.concat([
      Uint8Array.of(5, 1, 0, 3, name.length),
      name,
      Uint8Array.of(port >> 8, port & 255),
    ]),
  );
  assert.equal((await read(10))[1], 0, `${host}:${port} is refused`);
  return socket;
}

Deno.test({
  name: "conduit: socks5 leads ingress hosts, at the usual ports, to the ingress",
  ignore,
}, async () => {
  await inFolder(async (folder) => {
    await using opened = await open(folder, { mode: "emulate" }, { mode: "socks5" });
    const [socks, ...urls] = opened.conduit.endpoints;
    assert.equal(socks.kind, "socks5");
    assert.deepEqual(
      urls.map((one) => one.kind === "ingress" && [one.url, one.address]).slice(0, 2),
      [
        ["http://app.test/", socks.address],
        ["https://app.test/", socks.address],
      ],
    );
    const http = await through(socks.address, "app.test", 80);
    assert.match(await exchange(http, "app.test", "/"), /web:8080 \/ http$/);
    const raw = await through(socks.address, "x.wild.test", 443);
    const ca = await Deno.readTextFile(join(folder, "ingress-ca", "ca.pem"));
    const tls = connect({ socket: raw, servername: "x.wild.test", ca });
    assert.match(await exchange(tls, "x.wild.test", "/"), /web:8080 \/ https$/);
  });
});

Deno.test({
  name: "emulated ingress: hundreds of connections at once, and its end with some open",
  ignore,
}, async () => {
  await inFolder(async (folder) => {
    const opened = await open(folder, { mode: "emulate" });
    const [address] = at(opened, "http");
    const all = Array.from({ length: 200 }, () => plain(opened, "app.test"));
    for (const text of await Promise.all(all)) assert.match(text, /web:8080/);
    const idle = [at(opened, "http")[1], at(opened, "https")[1]].map((port) => {
      const socket = connectTcp(port, address);
      socket.on("error", () => {/* it is ended */});
      return new Promise<void>((resolve) => socket.once("close", () => resolve()));
    });
    await opened[Symbol.asyncDispose]();
    await Promise.all(idle);
  });
});
