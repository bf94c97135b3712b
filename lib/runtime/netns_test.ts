import assert from "node:assert/strict";
import { join } from "node:path";
import { createNetns, removeNetns } from "./netns.ts";
import { requireTools } from "../../test/e2e/harness.ts";
import { withinNetns } from "../sys/netns.ts";

const tools = requireTools({ root: true, commands: ["unshare", "nsenter", "ip", "umount"] });

Deno.test("a listener made within a namespace listens there and nowhere else", {
  ignore: tools.ignore,
}, async () => {
  const folder = await Deno.makeTempDir();
  const path = join(folder, "net");
  const own = await Deno.readLink("/proc/thread-self/ns/net");
  await createNetns(path);
  try {
    const port = 8080;
    using listener = withinNetns(path, () => Deno.listen({ hostname: "127.0.0.1", port }));
    assert.equal(await Deno.readLink("/proc/thread-self/ns/net"), own);
    const inside = async (...args: string[]) =>
      await new Deno.Command("nsenter", { args: [`--net=${path}`, ...args] }).output();
    await inside("ip", "link", "set", "lo", "up");
    const script = `exec 3<>/dev/tcp/127.0.0.1/${port} && cat <&3`;
    const asking = inside("bash", "-c", script);
    const connection = await listener.accept();
    await connection.write(new TextEncoder().encode("from the server\n"));
    connection.close();
    assert.equal(new TextDecoder().decode((await asking).stdout), "from the server\n");
    assert.throws(() => withinNetns(path, () => Deno.listen({ hostname: "127.0.0.1", port })));
    assert.equal(await Deno.readLink("/proc/thread-self/ns/net"), own);
    assert.throws(() => withinNetns(join(folder, "none"), () => 1), /none/);
  } finally {
    await removeNetns(path);
    await Deno.remove(folder, { recursive: true });
  }
});
