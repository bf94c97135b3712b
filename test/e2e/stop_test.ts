/** SIGTERM and SIGINT end a server whenever they come, and whatever hangs in it. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { PATIENCE_MS } from "../waits.ts";
import { e2eTest, EXECUTABLE, freePort, svc } from "./harness.ts";

const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

async function withDir(body: (dir: string) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir({ prefix: "svc-stop-" });
  try {
    await body(dir);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

/** False where the process had to be killed. */
async function ends(child: Deno.ChildProcess): Promise<boolean> {
  const late = setTimeout(() => child.kill("SIGKILL"), PATIENCE_MS);
  const { signal } = await child.status;
  clearTimeout(late);
  return signal !== "SIGKILL";
}

e2eTest(
  "a signal ends a server however soon it comes after the start, once or twice",
  {},
  () =>
    withDir(async (dir) => {
      // What the first start unpacks is no part of this.
      await svc(["version"]);
      const after = async (signals: Deno.Signal[], step: number) => {
        for (let ms = 0; ms <= 600; ms += step) {
          const args = [
            "serve",
            "--addr",
            `127.0.0.1:${freePort()}`,
            "--data-dir",
            join(dir, signals.join()),
          ];
          const child = new Deno.Command(EXECUTABLE, {
            args,
            env: { SVC_DEPLOY_BACKEND: "dockerhost", SVC_REGISTRY_SOURCE: "off" },
            stdout: "null",
            stderr: "null",
          }).spawn();
          await wait(ms);
          for (const signal of signals) {
            try {
              child.kill(signal);
            } catch {
              // The first one has ended it.
            }
            await wait(10);
          }
          assert.ok(await ends(child), `${signals} after ${ms} ms did not end it`);
        }
      };
      await Promise.all([
        after(["SIGTERM"], 40),
        after(["SIGINT"], 75),
        after(["SIGTERM", "SIGTERM"], 120),
      ]);
    }),
);

/** A program whose threads are in the kernel for good: a call of its own, and a Worker's. */
const STUCK = (lifecycle: string) => `
import { endInTime, Lifecycle } from ${JSON.stringify(lifecycle)};
const fifo = new TextEncoder().encode(Deno.args[0] + "\\0");
const symbols = { open: { parameters: ["buffer", "i32", "u32"], result: "i32" } };
const elsewhere = { open: { ...symbols.open, nonblocking: true } };
Deno.dlopen("libc.so.6", elsewhere).symbols.open(fifo, 0, 0);
const code = "Deno.dlopen('libc.so.6', " + JSON.stringify(symbols) +
  ").symbols.open(Uint8Array.from(" + JSON.stringify([...fifo]) + "), 0, 0)";
new Worker("data:text/javascript," + encodeURIComponent(code), { type: "module" });
const first = new AbortController();
Deno.addSignalListener("SIGTERM", () => first.abort());
const { signal } = first;
endInTime(new Lifecycle(), { first: signal, second: new AbortController().signal, graceMs: 0 },
  () => Deno.exit(0));
setTimeout(() => console.log("stuck"), 500);
setInterval(() => {}, 1000);
`;

e2eTest(
  "a signal ends a process whose threads are stuck in the kernel",
  { commands: ["mkfifo"] },
  () =>
    withDir(async (dir) => {
      const fifo = join(dir, "fifo");
      await new Deno.Command("mkfifo", { args: [fifo] }).output();
      const program = join(dir, "stuck.ts");
      const lifecycle = import.meta.resolve("../../lib/server/lifecycle.ts");
      await Deno.writeTextFile(program, STUCK(lifecycle));
      const child = new Deno.Command(Deno.execPath(), {
        args: ["run", "-A", "--no-check", "--quiet", program, fifo],
        stdout: "piped",
        stderr: "inherit",
      }).spawn();
      const reader = child.stdout.getReader();
      await reader.read();
      child.kill("SIGTERM");
      const ended = await ends(child);
      await reader.cancel();
      assert.ok(ended, "it did not end");
    }),
);
