import assert from "node:assert/strict";
import { SvcError } from "../../base/errors.ts";
import { createClient } from "../../client/client.ts";
import { servicesOf } from "../../client/forward.ts";
import type { DeployBackend } from "../../deploy/backend.ts";
import type { Duplex } from "../../wire/duplex.ts";
import { duplexPair, pattern, readAll } from "../../wire/testing.ts";
import type { Answered } from "../activity/entry.ts";
import type { ForwardTimes } from "../deps.ts";
import { startTestServer } from "../testing.ts";

const text = (bytes?: Uint8Array) => bytes && new TextDecoder().decode(bytes);
const bytes = (words: string) => new TextEncoder().encode(words);

/** Waits for what is not told. */
async function until(what: () => boolean): Promise<void> {
  for (const deadline = Date.now() + 30_000; !what();) {
    assert(Date.now() < deadline, "did not happen");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** A server with one deployment, `web`; each dial gives a stream whose other end is in `dialled`. */
async function forwardServer(
  { stream, times }: { stream?: () => Duplex; times?: Partial<ForwardTimes> } = {},
) {
  const dialled: Duplex[] = [];
  const asked: string[] = [];
  const noted: Answered[] = [];
  const dial: DeployBackend["dial"] = (name, port, protocol) => {
    asked.push(`${name}:${port}/${protocol}`);
    if (name !== "web") throw new SvcError("not_found", `Cannot connect: no deployment ${name}`);
    if (port === 1) throw new SvcError("upstream_failed", "Cannot connect to port 1: refused");
    if (stream) return Promise.resolve(stream());
    const [theirs, ours] = duplexPair();
    dialled.push(theirs);
    return Promise.resolve(ours);
  };
  const server = await startTestServer({
    backend: { dial },
    deps: { forward: times },
    note: (answered) => noted.push(answered),
  });
  return {
    server,
    dialled,
    asked,
    noted,
    services: servicesOf(createClient({ server: server.base })),
  };
}

Deno.test("forward: bytes travel both ways, and each direction ends by itself", async () => {
  const { server, dialled, services, asked, noted } = await forwardServer();
  await using _ = server;
  const stream = await services.dial("web", 80, "tcp");
  const [instance] = dialled;
  await stream.write(bytes("question"));
  assert.equal(text(await instance.read()), "question");
  await stream.closeWrite();
  assert.equal(await instance.read(), undefined);
  const answer = pattern(5_000_000);
  await Promise.all([
    instance.write(answer).then(() => instance.closeWrite()),
    readAll(stream).then((read) => assert.deepEqual(read, answer)),
  ]);
  await until(() => noted.length === 1);
  assert.deepEqual(asked, ["web:80/tcp"]);
  const [{ context, status }] = noted;
  assert.deepEqual([context.about, context.outcome, status], ["web:80/tcp", undefined, 101]);
});

Deno.test("forward: what stands in the way of a dial is an ordinary problem", async () => {
  const { server, services } = await forwardServer();
  await using _ = server;
  await assert.rejects(services.dial("wbe", 80, "tcp"), { code: "not_found" });
  await assert.rejects(services.dial("web", 1, "tcp"), {
    code: "upstream_failed",
    message: "Cannot connect to port 1: refused",
  });
  for (
    const query of ["", "?port=0", "?port=65536", "?port=x", "?port=80&protocol=sctp", "?prot=1"]
  ) {
    const response = await fetch(`${server.base}/.svc/v1/deployments/web/forward${query}`);
    assert.equal(response.status, 400, query);
    await response.body?.cancel();
  }
});

Deno.test("forward: a client's small messages are acknowledged one by one, so that the next one may leave", async () => {
  const { server, dialled } = await forwardServer();
  await using _ = server;
  const url = `${server.base}/.svc/v1/deployments/web/forward?port=80`;
  const socket = new WebSocket(url.replace(/^http/, "ws"));
  const messages: string[] = [];
  socket.onmessage = ({ data }) => messages.push(data);
  await new Promise((resolve) => socket.onopen = resolve);
  for (const [i, word] of ["SELECT", " 1"].entries()) {
    socket.send(bytes(word));
    assert.equal(text(await dialled[0].read()), word);
    await until(() => messages.length === i + 1);
    assert.deepEqual(JSON.parse(messages[i]), { ack: word.length });
  }
  const closed = new Promise((resolve) => socket.onclose = resolve);
  socket.close();
  await closed;
});
