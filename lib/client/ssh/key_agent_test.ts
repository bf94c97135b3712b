import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { requireTools } from "../../../test/e2e/harness.ts";
import { connDuplex, type Duplex } from "../../wire/duplex.ts";
import { string, uint32 } from "../../wire/ssh/packing.ts";
import type { ParsedKey } from "../../wire/ssh/private_key.ts";
import { NOBODY } from "../prompt.ts";
import { agentKeys, agentSign } from "./agent.ts";
import { loadKey } from "./key.ts";
import { keyAgent } from "./key_agent.ts";

const { ignore } = requireTools({ commands: ["ssh-keygen", "ssh-add"] });

async function tool(command: string, args: string[], env: Record<string, string> = {}) {
  const { code, stdout, stderr } = await new Deno.Command(command, { args, env }).output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  assert.equal(code, 0, `${command} ${args.join(" ")}: ${text(stderr)}`);
  return text(stdout);
}

async function pump(from: Duplex, to: Duplex): Promise<void> {
  for (let chunk = await from.read(); chunk; chunk = await from.read()) await to.write(chunk);
}

/** Serves it on a socket, for programs that speak to agents. */
function serve(path: string, keys: readonly ParsedKey[]): Disposable {
  const listener = Deno.listen({ transport: "unix", path });
  (async () => {
    for await (const conn of listener) {
      const program = connDuplex(conn);
      const agent = keyAgent(keys);
      pump(agent, program).catch(() => {}).finally(() => program.reset());
      pump(program, agent).catch(() => {}).finally(() => agent.reset());
    }
  })();
  return { [Symbol.dispose]: () => listener.close() };
}

Deno.test({
  name: "an agent of key files: ssh-add lists them, ssh-keygen has it sign",
  ignore,
  fn: async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-key-agent-" });
    try {
      const path = `${folder}/agent`;
      const env = { SSH_AUTH_SOCK: path };
      const keys: ParsedKey[] = [];
      for (const [type, bits] of [["ed25519", "256"], ["rsa", "2048"], ["ecdsa", "384"]]) {
        const file = `${folder}/${type}`;
        await tool("ssh-keygen", ["-q", "-t", type, "-b", bits, "-N", "", "-C", type, "-f", file]);
        keys.push(await loadKey(file, NOBODY));
        // Only the agent has it now.
        await Deno.remove(file);
      }
      using _served = serve(path, keys);
      const listed = (await tool("ssh-add", ["-L"], env)).trim().split("\n");
      assert.deepEqual(listed.map((line) => line.split(" ")[2]), ["ed25519", "rsa", "ecdsa"]);
      for (const type of ["ed25519", "rsa", "ecdsa"]) {
        const publicKey = `${folder}/${type}.pub`;
        assert.ok(listed.includes((await Deno.readTextFile(publicKey)).trim()));
        const message = `${folder}/${type}.txt`;
        await Deno.writeTextFile(message, type);
        await tool("ssh-keygen", ["-q", "-Y", "sign", "-n", "x", "-f", publicKey, message], env);
        await tool("sh", [
          "-c",
          `ssh-keygen -Y check-novalidate -n x -s ${message}.sig < ${message}`,
        ]);
      }
      const [{ blob }] = await agentKeys({ path });
      await assert.rejects(agentSign({ path }, Buffer.concat([blob, blob]), Buffer.from("x")));
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});

Deno.test("an agent of key files answers what it does not know with a failure, and ends with nonsense", async () => {
  const agent = keyAgent([]);
  const failure = Buffer.from([0, 0, 0, 1, 5]);
  // Adding a key, a lock, an extension, nothing at all, and half a request to sign.
  for (const request of [[17, 1, 2], [22], [27, 0, 0, 0, 1, 65], [], [13, 0, 0, 0, 9]]) {
    const message = string(Buffer.from(request));
    await agent.write(message.subarray(0, 3));
    await agent.write(message.subarray(3));
    assert.deepEqual(await agent.read(), failure);
  }
  await agent.write(string(Buffer.from([11])));
  assert.deepEqual(await agent.read(), Buffer.from([0, 0, 0, 5, 12, 0, 0, 0, 0]));
  await assert.rejects(agent.write(uint32(1 << 30)), { code: "upstream_failed" });
  assert.equal(await agent.read(), undefined);
});
