/** Commands in workloads from the client's side, against a server that does what it likes. */
import assert from "node:assert/strict";
import { writeLine } from "../wire/lines.ts";
import { upgradeAttached } from "../wire/attached/testing.ts";
import { createClient } from "./client.ts";
import { exec } from "./exec.ts";

Deno.test("exec: input that ends after the command is no failure", async () => {
  const closed = Promise.withResolvers<void>();
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, (request) => {
    const { session, response } = upgradeAttached(request, { takes: {} });
    const command = session.open("command");
    const [stdio, stderr] = [session.open("stdio"), session.open("stderr")];
    (async () => {
      await stdio.write(new TextEncoder().encode("said\n"));
      await Promise.all([stdio.closeWrite(), stderr.closeWrite()]);
      await writeLine(command, { exit: 7 });
      await session.close();
    })().finally(closed.resolve);
    return response;
  });
  try {
    const client = createClient({ server: `http://127.0.0.1:${server.addr.port}` });
    const input = new TransformStream<Uint8Array>();
    const code = await exec(client, "web", { command: ["true"] }, {
      stdin: input.readable,
      signal: new AbortController().signal,
      // The terminal is slow: the command has ended, and so has its session, when the input does.
      async onOutput() {
        await closed.promise;
        await input.writable.close();
        for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setTimeout(resolve));
      },
    });
    assert.equal(code, 7);
  } finally {
    await server.shutdown();
  }
});
