/** Emulated ingress of a session, asked by curl: by a rule's certificate, by the fallback, through SOCKS5. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { type Authority, makeAuthority } from "../peers/pki.ts";
import { eventually } from "../waits.ts";
import { e2eTest, type Server, startServer } from "./harness.ts";
import { Client } from "./session_client.ts";

const NEEDS = {
  root: true,
  commands: ["runc", "conmon", "iptables", "busybox", "curl", "openssl"],
};

const DOCKERFILE = `FROM scratch
COPY busybox /bin/busybox
RUN ["/bin/busybox", "--install", "-s", "/bin"]
COPY index.html /srv/index.html
STOPSIGNAL SIGKILL
CMD ["httpd", "-f", "-p", "8080", "-h", "/srv"]
`;

const PAGE = "hello from the ingress";

/** The host with a certificate of its own, and one without. */
const OWN = "app.example.test";
const OTHER = "other.example.test";

const SPEC = {
  name: "web",
  image: "app:v1",
  ingress: { hosts: [OWN, OTHER], port: 8080 },
};

const decoder = new TextDecoder();

interface Answer {
  code: number;
  text: string;
  words: string;
}

async function curl(...args: string[]): Promise<Answer> {
  const { code, stdout, stderr } = await new Deno.Command("curl", {
    args: ["-sS", "--max-time", "60", "--noproxy", "", ...args],
  }).output();
  return { code, text: decoder.decode(stdout).trim(), words: decoder.decode(stderr) };
}

interface World {
  server: Server;
  folder: string;
  authority: Authority;
  spec: string;
  certificate: { certificate: string; key: string };
  /** A session whose profile has the ingress emulated. */
  session(conduit?: Record<string, unknown>): Promise<Client>;
}

async function issue(authority: Authority, name: string): Promise<World["certificate"]> {
  const { cert, key } = await authority.issue(name, { names: [`DNS:${OWN}`] });
  await Deno.chmod(key, 0o600);
  return { certificate: cert, key };
}

async function withWorld(work: (world: World) => Promise<void>): Promise<void> {
  await using server = await startServer();
  const folder = await Deno.makeTempDir({ prefix: "svc-e2e-emulate-" });
  try {
    await Deno.writeTextFile(join(folder, "Dockerfile"), DOCKERFILE);
    await Deno.copyFile("/bin/busybox", join(folder, "busybox"));
    await Deno.writeTextFile(join(folder, "index.html"), `${PAGE}\n`);
    const { code, stderr } = await server.svc(["build", "-t", "app:v1", folder]);
    assert.equal(code, 0, stderr);
    const spec = join(folder, "web.yaml");
    await Deno.writeTextFile(spec, JSON.stringify(SPEC));
    const authority = await makeAuthority(folder, "own");
    const certificate = await issue(authority, "leaf");
    await work({
      ...{ server, folder, authority, spec, certificate },
      async session(conduit = {}) {
        const ingress = { mode: "emulate", certificates: [certificate] };
        const contexts = { a: { server: server.url, conduit: { ingress, ...conduit } } };
        const config = join(folder, "config.json");
        await Deno.writeTextFile(config, JSON.stringify({ "current-context": "a", contexts }), {
          mode: 0o600,
        });
        return new Client(server, ["-f", spec], { SVC_SERVER: "", SVC_CONFIG: config });
      },
    });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** The URL of a host, and what makes curl go to where the session says it is. */
async function urlOf(client: Client, scheme: string, host: string) {
  const line = new RegExp(`^(${scheme}://${host}\\S*) -> web:8080 \\(at 127.0.0.1:(\\d+)\\)$`, "m");
  const [, url, port] = await client.wrote(line);
  return { url, resolve: ["--resolve", `${host}:${port}:127.0.0.1`] };
}

e2eTest("deploy --session with emulated ingress: HTTP and HTTPS by host", NEEDS, async (t) => {
  await withWorld(async (world) => {
    const { folder, authority } = world;
    const trusted = ["--cacert", authority.cert];
    const generated = join(folder, "ingress-ca", "ca.pem");
    {
      await using client = await world.session();
      const own = await urlOf(client, "https", OWN);
      const other = await urlOf(client, "https", OTHER);

      await t.step("plain HTTP", async () => {
        const { url, resolve } = await urlOf(client, "http", OWN);
        assert.deepEqual(await curl(...resolve, url), { code: 0, text: PAGE, words: "" });
        const missing = await curl(...resolve, "-H", "Host: far.test", "-w", "%{http_code}", url);
        assert.match(missing.text, /404$/);
      });

      await t.step("HTTPS by the rule's certificate", async () => {
        const { text, words } = await curl(...trusted, ...own.resolve, own.url);
        assert.equal(text, PAGE, words);
        // Its authority is nobody else's.
        assert.equal((await curl("--cacert", generated, ...own.resolve, own.url)).code, 60);
      });

      await t.step("HTTPS by the authority that svc made, whose path is told", async () => {
        await client.wrote(new RegExp(`warning: .* clients have to trust ${generated}$`, "m"));
        const { text, words } = await curl("--cacert", generated, ...other.resolve, other.url);
        assert.equal(text, PAGE, words);
        assert.equal((await curl(...trusted, ...other.resolve, other.url)).code, 60);
        assert.equal((await Deno.stat(join(folder, "ingress-ca", "ca.key"))).mode! & 0o777, 0o600);
      });

      await t.step("a certificate that is renewed is shown without a new start", async () => {
        const next = await makeAuthority(folder, "next");
        const renewed = await issue(next, "renewed");
        await Deno.rename(renewed.certificate, world.certificate.certificate);
        await Deno.rename(renewed.key, world.certificate.key);
        await eventually("the new certificate is shown", async () => {
          const { code, text } = await curl("--cacert", next.cert, ...own.resolve, own.url);
          return code === 0 && text === PAGE;
        });
        const back = await issue(authority, "back");
        await Deno.rename(back.certificate, world.certificate.certificate);
        await Deno.rename(back.key, world.certificate.key);
      });

      client.kill("SIGINT");
      assert.equal((await client.ended).code, 0, client.all);
    }

    await t.step("through the SOCKS5 proxy, at the usual ports", async () => {
      const conduit = { mode: "socks5", socks5: { listen: "127.0.0.1:0" } };
      await using client = await world.session(conduit);
      const [, proxy] = await client.wrote(/^(socks5h:\/\/127\.0\.0\.1:\d+) -> /m);
      await client.wrote(new RegExp(`^https://${OWN}/ -> web:8080`, "m"));
      for (const url of [`http://${OWN}/`, `https://${OWN}/`]) {
        const { text, words } = await curl("--proxy", proxy, ...trusted, url);
        assert.equal(text, PAGE, words);
      }
      const fallback = await curl("--proxy", proxy, "--cacert", generated, `https://${OTHER}/`);
      assert.equal(fallback.text, PAGE, fallback.words);
      client.kill("SIGINT");
      assert.equal((await client.ended).code, 0, client.all);
    });

    await t.step("what is wrong with the files is said before anything is deployed", async () => {
      await Deno.writeTextFile(world.certificate.key, "rubbish");
      await using client = await world.session();
      assert.equal((await client.ended).code, 2);
      assert.match(client.all, /Cannot use conduit\.ingress\.certificates\[0\]\.key: .*no private/);
      assert.doesNotMatch(client.all, /pulling|is deployed/);
    });
  });
});
