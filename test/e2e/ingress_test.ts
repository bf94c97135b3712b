/** Hosts of deployments at the server's front door, asked by curl and a WebSocket. */
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { join } from "node:path";
import { e2eTest, type RunOutput, runTool, type Server, startServer } from "./harness.ts";

const NEEDS = { root: true, commands: ["runc", "conmon", "iptables", "busybox", "curl"] };

const DOCKERFILE = `FROM scratch
COPY busybox /bin/busybox
RUN ["/bin/busybox", "--install", "-s", "/bin"]
COPY srv /srv
COPY --chmod=755 websocket /websocket
COPY --chmod=755 sum /srv/cgi-bin/sum
STOPSIGNAL SIGKILL
CMD ["httpd", "-f", "-p", "8080", "-h", "/srv"]
`;

/** Keeps what it is sent where it can be fetched again, and says its sum. */
const SUM = `#!/bin/sh
cat > /srv/kept
printf 'Content-Type: text/plain\\r\\n\\r\\n'
sha256sum < /srv/kept
`;

/** Sends each short text that comes in a masked frame back in a frame of its own (RFC 6455). */
const WEBSOCKET = `#!/bin/sh
cr=$(printf '\\r')
while read -r line; do
  line=\${line%$cr}
  case $line in
    [Ss]ec-[Ww]eb[Ss]ocket-[Kk]ey:*) key=\${line#*: } ;;
    '') break ;;
  esac
done
sum=$(printf '%s258EAFA5-E914-47DA-95CA-C5AB0DC85B11' "$key" | sha1sum | cut -c 1-40)
accept=$(echo "$sum" | xxd -r -p | base64)
printf 'HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n'
printf 'Sec-WebSocket-Accept: %s\\r\\n\\r\\n' "$accept"
bytes() { dd bs=1 count=$1 2>/dev/null | od -An -v -tu1; }
while set -- $(bytes 2); [ $# = 2 ] && [ $1 = 129 ]; do
  size=$(($2 & 127))
  set -- $(bytes 4); a=$1 b=$2 c=$3 d=$4
  text=
  for byte in $(bytes $size); do
    text="$text\\\\0$(printf %o $((byte ^ a)))"
    e=$a; a=$b; b=$c; c=$d; d=$e
  done
  printf "\\\\201\\\\$(printf %o $size)"
  printf %b "$text"
done
`;

function ok(output: RunOutput): string {
  assert.equal(output.code, 0, `exit code ${output.code}: ${output.stderr}${output.stdout}`);
  return output.stdout;
}

async function build(server: Server, folder: string, tag: string, page: string): Promise<void> {
  await Deno.mkdir(join(folder, "srv"), { recursive: true });
  await Deno.copyFile("/bin/busybox", join(folder, "busybox"));
  const files = {
    Dockerfile: DOCKERFILE,
    websocket: WEBSOCKET,
    sum: SUM,
    "srv/index.html": `${page}\n`,
  };
  for (const [name, text] of Object.entries(files)) {
    await Deno.writeTextFile(join(folder, name), text);
  }
  ok(await server.svc(["build", "-t", tag, folder]));
}

function deploy(server: Server, spec: Record<string, unknown>): Promise<RunOutput> {
  return server.svc(["deploy", "-f", "-"], { stdin: JSON.stringify(spec) });
}

async function doorOf(server: Server): Promise<number> {
  const info = await (await fetch(`${server.url}/.svc/v1/info`)).json();
  return Number(/:(\d+)$/.exec(info.ingress.listen)![1]);
}

/** curl of a host at the front door: status and body. */
async function curl(port: number, host: string, args: string[] = [], path = "/") {
  const { stdout } = await runTool("curl", [
    ...["-sS", "--max-time", "60", "-w", "\n%{http_code}", "--noproxy", "*"],
    ...["--resolve", `${host}:${port}:127.0.0.1`, ...args, `http://${host}:${port}${path}`],
  ]);
  const end = stdout.lastIndexOf("\n");
  return { status: Number(stdout.slice(end + 1)), body: stdout.slice(0, end) };
}

/** Texts through a WebSocket that sends each one back. */
async function echoes(url: string, texts: string[]): Promise<string[]> {
  const socket = new WebSocket(url);
  const got: string[] = [];
  await new Promise<void>((resolve, reject) => {
    const next = () => got.length < texts.length ? socket.send(texts[got.length]) : resolve();
    socket.onopen = next;
    socket.onmessage = ({ data }) => {
      got.push(data);
      next();
    };
    socket.onerror = (event) => reject(new Error((event as ErrorEvent).message));
    socket.onclose = () => reject(new Error("it closed early"));
  });
  socket.onclose = socket.onerror = null;
  socket.close();
  return got;
}

/** It is there when `test` says so, and no sooner. */
const when = (test: string) => ({ test, interval: "1h", startInterval: "50ms", timeout: "60s" });
/** Something listens on port 9000, whom no connection should disturb. */
const LISTENS = "grep -q ':2328 0*:0000 0A' /proc/net/tcp /proc/net/tcp6";

e2eTest("ingress: hosts of deployments at the front door", NEEDS, async (t) => {
  await using server = await startServer({
    env: {
      SVC_INGRESS_LISTEN: "127.0.0.1:0",
      SVC_INGRESS_DOMAIN: "localhost",
      SVC_INGRESS_ENFORCE_DOMAIN: "true",
    },
  });
  const work = await Deno.makeTempDir({ prefix: "svc-e2e-ingress-" });
  const web = {
    name: "web",
    image: "app:v1",
    healthcheck: when("wget -q -O - http://127.0.0.1:8080/"),
    ingress: { port: 8080 },
  };
  try {
    let port = await doorOf(server);
    await build(server, join(work, "v1"), "app:v1", "version one");
    await build(server, join(work, "v2"), "app:v2", "version two");

    await t.step("a deployment answers at its name below the domain", async () => {
      assert.equal((await curl(port, "web.localhost")).status, 404);
      ok(await deploy(server, web));
      assert.deepEqual(await curl(port, "web.localhost"), { status: 200, body: "version one\n" });
      assert.equal((await curl(port, "other.localhost")).status, 404);
      const named = await curl(port, "localhost", ["-H", "Host: WEB.localhost."]);
      assert.equal(named.body, "version one\n");
      assert.match(
        ok(await server.svc(["status", "web"])),
        new RegExp(`^Ingress: +http://web\\.localhost:${port}/$`, "m"),
      );
      const [row] = ok(await server.svc(["ps", "--output", "json"])).trim().split("\n");
      assert.equal(JSON.parse(row).ingress[0].host, "web.localhost");
    });

    await t.step("what is somebody else's, or outside the domain, is refused at once", async () => {
      const thief = { name: "thief", image: "no-such-image", ingress: { port: 1 } };
      const taken = await deploy(server, { ...thief, ingress: { port: 1, subdomain: "web" } });
      assert.equal(taken.code, 1);
      assert.match(taken.stderr, /web\.localhost, path \/, belongs to deployment web/);
      const outside = await deploy(server, {
        ...thief,
        ingress: { port: 1, hosts: ["evillocalhost"] },
      });
      assert.equal(outside.code, 1);
      assert.match(outside.stderr, /evillocalhost is outside the domain localhost/);
      assert.equal((await server.svc(["status", "thief"])).code, 1);
    });

    await t.step("a large body goes in and comes out as it was", async () => {
      const file = join(work, "large");
      const bytes = randomBytes(48 * 1024 ** 2);
      await Deno.writeFile(file, bytes);
      const sum = createHash("sha256").update(bytes).digest("hex");
      const sent = await curl(port, "web.localhost", ["--data-binary", `@${file}`], "/cgi-bin/sum");
      assert.deepEqual([sent.status, sent.body.split(" ")[0]], [200, sum]);
      const back = join(work, "back");
      assert.equal((await curl(port, "web.localhost", ["-o", back], "/kept")).status, 200);
      assert.equal(createHash("sha256").update(await Deno.readFile(back)).digest("hex"), sum);
    });

    await t.step("a WebSocket, at the domain itself", async () => {
      ok(
        await deploy(server, {
          name: "echo",
          image: "app:v1",
          healthcheck: when(LISTENS),
          command: ["nc", "-ll", "-p", "9000", "-e", "/websocket"],
          ingress: { hosts: ["@"], path: "/ws", port: 9000 },
        }),
      );
      const texts = ["hello", "", "through the front door", "x".repeat(125)];
      assert.deepEqual(await echoes(`ws://localhost:${port}/ws/echo`, texts), texts);
      assert.equal((await curl(port, "localhost")).status, 404);
    });

    await t.step("a replacement takes over without a missed request", async () => {
      let missed = 0;
      let answered = 0;
      let over = false;
      const ask = async () => {
        const { status, body } = await curl(port, "web.localhost");
        assert.equal(status, 200, body);
        answered++;
      };
      const asking = Promise.all([0, 1].map(async () => {
        // One that the old instance was about to answer may end with it; the next has to be answered.
        while (!over) await ask().catch(ask).catch(() => missed++);
      }));
      ok(await deploy(server, { ...web, image: "app:v2" }));
      over = true;
      await asking;
      assert.equal(missed, 0);
      assert(answered > 0);
      assert.equal((await curl(port, "web.localhost")).body, "version two\n");
    });

    await t.step("a server that starts again knows them", async () => {
      await server.restart();
      port = await doorOf(server);
      assert.equal((await curl(port, "web.localhost")).body, "version two\n");
    });

    await t.step("one that is stopped is told as such; one that is gone, as nobody", async () => {
      ok(await server.svc(["stop", "web"]));
      const stopped = await curl(port, "web.localhost");
      assert.equal(stopped.status, 503);
      assert.match(stopped.body, /^svc: deployment web cannot be reached: it does not run\n/);
      ok(await server.svc(["start", "web"]));
      assert.equal((await curl(port, "web.localhost")).body, "version two\n");
      ok(await server.svc(["rm", "web"]));
      assert.equal((await curl(port, "web.localhost")).status, 404);
    });
  } finally {
    await Deno.remove(work, { recursive: true });
  }
});
