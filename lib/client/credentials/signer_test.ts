import assert from "node:assert/strict";
import { join } from "node:path";
import { requireTools } from "../../../test/e2e/harness.ts";
import { makeKey } from "../../../test/peers/sshd.ts";
import { NOBODY } from "../prompt.ts";
import { openSigner } from "./signer.ts";

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
      const verify = async (message: string, namespace: string) => {
        const child = new Deno.Command("ssh-keygen", {
          args: [
            "-Y",
            "verify",
            "-f",
            file("allowed"),
            "-I",
            "me",
            "-n",
            namespace,
            "-s",
            file("sig"),
          ],
          stdin: "piped",
          stdout: "null",
          stderr: "null",
        }).spawn();
        const writer = child.stdin.getWriter();
        await writer.write(new TextEncoder().encode(message));
        await writer.close();
        return (await child.status).success;
      };
      assert.equal(await verify("a challenge", "svc-session@v1"), true, `${type} ${i}`);
      assert.equal(await verify("another", "svc-session@v1"), false);
      assert.equal(await verify("a challenge", "file"), false);
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
