/** What a new user runs first has to work, and to leave nothing behind. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { e2eTest } from "./harness.ts";

const TOOLS = {
  root: true,
  commands: ["runc", "conmon", "iptables", "curl"],
  files: ["/bin/busybox"],
};

/** The demo with a temporary folder of its own; what is left in it afterwards comes back too. */
async function demo(watch: (text: string, child: Deno.ChildProcess) => void) {
  const dir = await Deno.makeTempDir({ prefix: "svc-e2e-demo-" });
  try {
    const child = new Deno.Command(join(import.meta.dirname!, "../../scripts/demo"), {
      env: { TMPDIR: dir },
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    let text = "";
    const collect = async (stream: ReadableStream<Uint8Array>) => {
      const decoder = new TextDecoder();
      for await (const chunk of stream) {
        text += decoder.decode(chunk, { stream: true });
        watch(text, child);
      }
    };
    await Promise.all([collect(child.stdout), collect(child.stderr)]);
    const { code } = await child.status;
    return { code, text, left: [...Deno.readDirSync(dir)].map((entry) => entry.name) };
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

e2eTest(
  "demo: a Dockerfile becomes a container that answers, and all is taken away",
  TOOLS,
  async () => {
    const { code, text, left } = await demo(() => {});
    assert.equal(code, 0, text);
    assert.match(text, /<h1>Hello from svc<\/h1>/);
    assert.match(text, /hello +\S+hello:v1 +running +1\/1/);
    const again = text.slice(text.indexOf("The same again"));
    assert.match(again, /RUN sed[^\n]*\n#\d+ CACHED/);
    assert.deepEqual(left, []);
  },
);

e2eTest("demo: interrupted, it takes away what there is", TOOLS, async () => {
  let sent = false;
  const { code, text, left } = await demo((text, child) => {
    if (sent || !text.includes("A base image")) return;
    sent = true;
    child.kill("SIGINT");
  });
  assert.equal(code, 130, text);
  assert.match(text, /Cleaning up\n/);
  assert.deepEqual(left, []);
});
