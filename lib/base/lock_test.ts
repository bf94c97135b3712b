import assert from "node:assert/strict";
import { SvcError } from "./errors.ts";
import { acquireLock } from "./lock.ts";

const HOLDER = `
  const { acquireLock } = await import(${
  JSON.stringify(new URL("./lock.ts", import.meta.url).href)
});
  await acquireLock(Deno.args[0]);
  console.log("held");
  setTimeout(() => {}, 60_000);
`;

Deno.test("lock: the second taker learns the first's process id", async () => {
  const dir = await Deno.makeTempDir();
  const path = `${dir}/lock`;
  const first = await acquireLock(path);
  await assert.rejects(
    acquireLock(path),
    (error) =>
      error instanceof SvcError && error.code === "data_dir_locked" &&
      error.message === `Cannot lock ${path}: process ${Deno.pid} holds it` &&
      error.detail?.pid === Deno.pid,
  );
  first[Symbol.dispose]();
  (await acquireLock(path))[Symbol.dispose]();
  await Deno.remove(dir, { recursive: true });
});

Deno.test("lock: a killed holder's lock is free again", async () => {
  const dir = await Deno.makeTempDir();
  const path = `${dir}/lock`;
  const script = `${dir}/holder.ts`;
  await Deno.writeTextFile(script, HOLDER);
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-config", script, path],
    stdout: "piped",
  }).spawn();
  const reader = child.stdout.getReader();
  assert.equal(new TextDecoder().decode((await reader.read()).value).trim(), "held");
  await assert.rejects(
    acquireLock(path),
    (error) => error instanceof SvcError && error.message.includes(`process ${child.pid} holds it`),
  );
  child.kill("SIGKILL");
  await child.status;
  await reader.cancel();
  const lock = await acquireLock(path);
  assert.equal((await Deno.readTextFile(path)).trim(), String(Deno.pid));
  lock[Symbol.dispose]();
  await Deno.remove(dir, { recursive: true });
});
