import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { createServer } from "node:net";
import { join } from "node:path";
import { requireTools } from "../../../test/e2e/harness.ts";
import { makeKey } from "../../../test/peers/sshd.ts";
import { type TestSecurityKey, testSecurityKey } from "../../auth/ssh/testing.ts";
import { NOBODY } from "../prompt.ts";
import { fingerprint, Reader, string } from "../../wire/ssh/packing.ts";
import { openSigner } from "./signer.ts";

/** What ssh-keygen says of `sig` in the folder, by a key in `allowed`. */
async function keygenVerifies(
  folder: string,
  namespace: string,
  message: string,
): Promise<boolean> {
  const child = new Deno.Command("ssh-keygen", {
    args: [
      ...["-Y", "verify", "-f", join(folder, "allowed"), "-I", "me", "-n", namespace],
      ...["-s", join(folder, "sig")],
    ],
    stdin: "piped",
    stdout: "null",
    stderr: "null",
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(message));
  await writer.close();
  return (await child.status).success;
}

/** An SSH agent with one key, on a socket of the folder. */
async function agentWith(folder: string, key: TestSecurityKey) {
  const path = join(folder, "agent");
  const server = createServer((socket) => {
    let all = Buffer.alloc(0);
    socket.on("error", () => {/* the client went away */});
    socket.on("data", (data) => {
      all = Buffer.concat([all, data as Buffer]);
      if (all.length < 4 || all.length < 4 + all.readUInt32BE()) return;
      const [kind] = all.subarray(4);
      if (kind === 11) {
        const head = Buffer.from([12, 0, 0, 0, 1]);
        return void socket.write(
          string(Buffer.concat([head, string(key.blob), string("a comment")])),
        );
      }
      const reader = new Reader(all.subarray(5), "a request");
      assert.deepEqual(Buffer.from(reader.string()), key.blob);
      const signature = key.sign(Buffer.from(reader.string()));
      socket.write(string(Buffer.concat([Buffer.from([14]), string(signature)])));
    });
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  return {
    path,
    [Symbol.asyncDispose]: () => new Promise<void>((resolve) => server.close(() => resolve())),
  };
}

const { ignore } = requireTools({ commands: ["ssh-keygen"] });

Deno.test({
  name: "SSHSIG: ssh-keygen verifies what each kind of key signed, often enough for odd numbers",
  ignore,
}, async () => {
  const folder = await Deno.makeTempDir();
  const file = (name: string) => join(folder, name);
  const kinds = [["ed25519"], ["rsa"], ["ecdsa", "-b", "521"], ...Array(8).fill(["ecdsa"])];
  try {
    for (const [i, [type, ...bits]] of kinds.entries()) {
      const path = file(`k${i}`);
      await makeKey(path, type, "", bits);
      const signer = await openSigner({
        settings: { "identity-file": path },
        env: {},
        prompt: NOBODY,
      });
      await Deno.writeTextFile(file("allowed"), `me ${signer.publicKey}\n`);
      await Deno.writeTextFile(file("sig"), await signer.sign("a challenge", "svc-session@v1"));
      const verify = (message: string, namespace: string) =>
        keygenVerifies(folder, namespace, message);
      assert.equal(await verify("a challenge", "svc-session@v1"), true, `${type} ${i}`);
      assert.equal(await verify("another", "svc-session@v1"), false);
      assert.equal(await verify("a challenge", "file"), false);
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test({
  name:
    "SSHSIG: a FIDO key of the agent signs, and ssh-keygen verifies it; its file alone is refused by name",
  ignore,
}, async () => {
  for (const kind of ["ed25519", 256] as const) {
    const folder = await Deno.makeTempDir();
    try {
      const key = testSecurityKey(kind);
      await using agent = await agentWith(folder, key);
      const identity = join(folder, "id_sk");
      await Deno.writeTextFile(`${identity}.pub`, `${key.line} me\n`);
      for (
        const settings of [
          { "key-fingerprint": fingerprint(key.blob) },
          { "identity-file": identity },
        ]
      ) {
        const signer = await openSigner({
          settings,
          env: { SSH_AUTH_SOCK: agent.path },
          prompt: NOBODY,
        });
        assert.equal(signer.publicKey, key.line);
        await Deno.writeTextFile(join(folder, "allowed"), `me ${signer.publicKey}\n`);
        await Deno.writeTextFile(
          join(folder, "sig"),
          await signer.sign("a challenge", "svc-session@v1"),
        );
        assert.equal(await keygenVerifies(folder, "svc-session@v1", "a challenge"), true);
        assert.equal(await keygenVerifies(folder, "svc-session@v1", "another"), false);
      }
      await assert.rejects(
        openSigner({ settings: { "identity-file": identity }, env: {}, prompt: NOBODY }),
        /id_sk: it belongs to a FIDO security key, which signs through an SSH agent/,
      );
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  }
});
