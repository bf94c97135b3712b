/** `svc port-forward`: TCP and UDP to a workload that runs, through whatever happens to it and to the server. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { createSocket, type Socket as UdpSocket } from "node:dgram";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import type { DeploymentStatus } from "../../lib/api/deployment.ts";
import { pattern } from "../../lib/wire/testing.ts";
import { eventually, PATIENCE_MS } from "../waits.ts";
import { baseImage, e2eTest, EXECUTABLE, type Server, startServer } from "./harness.ts";

/** Answers by the first line of a connection; UDP comes back with a mark. */
const WORKLOAD = `use IO::Socket::INET;
$SIG{CHLD} = "IGNORE";
my $udp = IO::Socket::INET->new(Proto => "udp", LocalPort => 5353) or die $!;
my $tcp = IO::Socket::INET->new(Proto => "tcp", LocalPort => 9000, Listen => 128) or die $!;
if (!fork) {
  while (1) {
    my $from = $udp->recv(my $data, 65535) or next;
    $udp->send("udp:$data", 0, $from);
  }
}
while (1) {
  my $peer = $tcp->accept or next;
  next if fork;
  my ($what, $byte) = ("");
  while (sysread($peer, $byte, 1) and $byte ne "\\n") { $what .= $byte }
  my $count = 0;
  if ($what eq "who") { syswrite($peer, $ENV{WHO}); exit }
  while ($what eq "flood") { syswrite($peer, "x" x 65536) or exit }
  while (my $got = sysread($peer, my $data, 65536)) {
    $count += $got;
    syswrite($peer, $data) if $what eq "echo";
  }
  syswrite($peer, "$count bytes") if $what eq "count";
  exit;
}
`;

const NEEDS = {
  root: true,
  commands: ["runc", "conmon", "iptables", "busybox", "skopeo"],
  files: ["/usr/bin/perl"],
};

/** The interpreter is the host's: folders that hold it and its libraries, where this machine has them. */
const HOST_FOLDERS = { "/usr": "/usr", "/usr/lib": "/lib", "/usr/lib64": "/lib64" };

async function deploy(server: Server, image: string, who: string): Promise<void> {
  const exists = (path: string) => Deno.stat(path).then(() => true, () => false);
  const mounts: string[] = [];
  for (const [from, to] of Object.entries(HOST_FOLDERS)) {
    if (await exists(from)) mounts.push(`${from}:${to}:ro`);
  }
  const spec = {
    name: "net",
    image,
    command: ["/usr/bin/perl", "-e", WORKLOAD],
    env: { WHO: who },
    ports: [{ container: 9000 }, { container: 5353, protocol: "udp" }],
    mounts,
    stopSignal: "SIGKILL",
  };
  const { code, stderr } = await server.svc(["deploy", "-f", "-"], { stdin: JSON.stringify(spec) });
  assert.equal(code, 0, stderr);
}

interface Forwarding extends AsyncDisposable {
  /** Local ports, in the order they were told. */
  ports: number[];
  stdout: string;
  stderr(): string;
  /** SIGINT, and the exit code. */
  interrupt(): Promise<number>;
}

/** Runs until it has told of so many ports. */
async function portForward(server: Server, args: string[], ports: number): Promise<Forwarding> {
  const { PATH = "", HOME = "" } = Deno.env.toObject();
  const child = new Deno.Command(EXECUTABLE, {
    args: ["port-forward", ...args],
    clearEnv: true,
    env: { PATH, HOME, SVC_SERVER: server.url, SVC_CONFIG: "/nonexistent/svc-test-config.yaml" },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const said = { stdout: "", stderr: "" };
  const collect = async (name: keyof typeof said) => {
    const decoder = new TextDecoder();
    for await (const chunk of child[name]) said[name] += decoder.decode(chunk, { stream: true });
  };
  let ended = false;
  const closed = Promise.all([collect("stdout"), collect("stderr"), child.status])
    .then(([, , { code }]) => (ended = true, code));
  await eventually("it listens", () => ended || said.stdout.split("\n").length > ports);
  assert(!ended, said.stderr);
  return {
    ports: [...said.stdout.matchAll(/^Forwarding from 127\.0\.0\.1:(\d+) -> /gm)].map((m) =>
      Number(m[1])
    ),
    stdout: said.stdout,
    stderr: () => said.stderr,
    interrupt() {
      child.kill("SIGINT");
      return closed;
    },
    async [Symbol.asyncDispose]() {
      if (!ended) child.kill("SIGKILL");
      await closed;
    },
  };
}

const to = (port: number) => connect({ port, host: "127.0.0.1", allowHalfOpen: true });

/** What is answered up to the end; throws what broke the connection. */
async function answer(socket: Socket): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of socket) parts.push(part);
  return Buffer.concat(parts);
}

/** Until the end, or what broke the connection. */
async function drain(socket: Socket): Promise<void> {
  for await (const _ of socket);
}

/** One question, and what is answered after its end. */
async function ask(port: number, what: string, body: Uint8Array | string = ""): Promise<Buffer> {
  const socket = to(port);
  socket.write(`${what}\n`);
  socket.end(body);
  return await answer(socket);
}

/** One datagram there and back; sent again until there is an answer, as who uses UDP does. */
async function askUdp(port: number, words: string, socket: UdpSocket): Promise<string> {
  const answered = once(socket, "message", { signal: AbortSignal.timeout(PATIENCE_MS) });
  const send = () => socket.send(words, port, "127.0.0.1");
  const again = setInterval(send, 1000);
  send();
  try {
    return String((await answered)[0]);
  } finally {
    clearInterval(again);
  }
}

e2eTest("port-forward: TCP and UDP, replacement, a server that is killed", NEEDS, async (t) => {
  await using server = await startServer({ env: { SVC_ALLOW_BIND_SOURCES: "/usr" } });
  const { name: image } = await baseImage(server, "base:v1");
  await deploy(server, image, "first");
  await using forward = await portForward(server, ["net", ":9000", ":5353/udp"], 2);
  const [tcp, udp] = forward.ports;

  await t.step("the end of a question is not the end of its answer", async () => {
    assert.match(forward.stdout, /-> 9000\n.* -> 5353\/udp\n$/);
    assert.equal(String(await ask(tcp, "count", pattern(3_000_000))), "3000000 bytes");
  });

  await t.step("twenty connections at once", async () => {
    await Promise.all(Array.from({ length: 20 }, async (_, index) => {
      const sent = pattern(500_000, index + 1);
      assert(Buffer.from(sent).equals(await ask(tcp, "echo", sent)), `connection ${index}`);
    }));
  });

  await t.step("UDP, from several peers", async () => {
    const words = ["one", "two", "three"];
    const sockets = words.map(() => createSocket("udp4"));
    const asked = words.map((word, index) => askUdp(udp, word, sockets[index]));
    assert.deepEqual(await Promise.all(asked), ["udp:one", "udp:two", "udp:three"]);
    for (const socket of sockets) socket.close();
  });

  await t.step("without ports: those that are declared; json tells them a line each", async () => {
    await using all = await portForward(server, ["net", "--output", "json"], 2);
    const told = all.stdout.trim().split("\n").map((line) => JSON.parse(line));
    assert.deepEqual(told.map(({ remote, protocol }) => `${remote}/${protocol}`), [
      "9000/tcp",
      "5353/udp",
    ]);
    assert.equal(String(await ask(told[0].local, "who")), "first");
  });

  await t.step("what stands in the way is said at once, or for each connection", async () => {
    const missing = await server.svc(["port-forward", "nobody", ":80"]);
    assert.equal(missing.code, 1);
    assert.match(missing.stderr, /nobody: there is no such deployment/);
    const taken = await server.svc(["port-forward", "net", `${tcp}:9000`]);
    assert.equal(taken.code, 1);
    assert.match(taken.stderr, /Cannot listen on 127\.0\.0\.1:\d+: the port is taken/);
    await using wrong = await portForward(server, ["net", ":1"], 1);
    for (let times = 1; times <= 2; times++) {
      await assert.rejects(ask(wrong.ports[0], "who"), { code: "ECONNRESET" });
      await eventually(
        "a line",
        () => wrong.stderr().split("nothing listens there").length > times,
      );
    }
    assert.equal(await wrong.interrupt(), 0);
  });

  await t.step("a deployment that is replaced is dialled anew", async () => {
    await deploy(server, image, "second");
    assert.equal(String(await ask(tcp, "who")), "second");
  });

  await t.step("UDP to its published port is led to the one that is there", async () => {
    const answer = await fetch(`${server.url}/.svc/v1/deployments/net`);
    const { ports }: DeploymentStatus = await answer.json();
    const { host } = ports.find(({ protocol }) => protocol === "udp")!;
    // To the kernel all of it is one connection.
    const socket = createSocket("udp4");
    for (const who of ["third", "second"]) {
      assert.equal(await askUdp(host, who, socket), `udp:${who}`);
      await deploy(server, image, who);
    }
    assert.equal(await askUdp(host, "again", socket), "udp:again");
    socket.close();
  });

  await t.step("the flight record has it", async () => {
    const record = await server.svc(["activity", "--output", "json"]);
    assert.match(record.stdout, /"name":"net:9000\/tcp"/, record.stderr);
    assert.match(record.stdout, /deployments\/\{name\}\/forward/);
  });

  await t.step(
    "a server that is killed breaks what is open, told; one that is back goes on",
    async () => {
      const socket = to(tcp);
      socket.write("flood\n");
      await once(socket, "data");
      const broken = assert.rejects(drain(socket), { code: "ECONNRESET" });
      await server.kill9();
      await broken;
      await eventually("a line", () => /port 9000 of net/.test(forward.stderr()));
      await assert.rejects(ask(tcp, "who"), { code: "ECONNRESET" });
      await server.restart();
      assert.equal(String(await ask(tcp, "who")), "second");
    },
  );

  await t.step("an interrupt is the good end", async () => {
    const socket = to(tcp);
    socket.write("echo\nx");
    await once(socket, "data");
    const broken = assert.rejects(answer(socket), { code: "ECONNRESET" });
    assert.equal(await forward.interrupt(), 0);
    await broken;
  });
});
