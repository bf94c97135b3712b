import assert from "node:assert/strict";
import { killContainers } from "./orphans.ts";

/** Start time in clock ticks, as the runtimes note it. */
function startOf(pid: number): number {
  const stat = Deno.readTextFileSync(`/proc/${pid}/stat`);
  return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19]);
}

Deno.test({
  name: "orphans: the first process of each container, and nobody who has its number now",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const root = await Deno.makeTempDir({ prefix: "svc-orphans-" });
    const sleep = () => new Deno.Command("sleep", { args: ["600"], stdin: "null" }).spawn();
    const children = [sleep(), sleep(), sleep()];
    const [ours, crun, other] = children;
    const note = async (id: string, file: string, state: unknown) => {
      await Deno.mkdir(`${root}/${id}`, { recursive: true });
      const text = typeof state === "string" ? state : JSON.stringify(state);
      await Deno.writeTextFile(`${root}/${id}/${file}`, text);
    };
    try {
      await note("a", "state.json", {
        init_process_pid: ours.pid,
        init_process_start: startOf(ours.pid),
      });
      await note("b", "status", { pid: crun.pid, "process-start-time": startOf(crun.pid) });
      await note("c", "state.json", {
        init_process_pid: other.pid,
        init_process_start: startOf(other.pid) + 1,
      });
      await note("d", "state.json", '{"init_process_pid": 1');
      assert.equal(await killContainers(root), 2);
      assert.equal((await ours.status).signal, "SIGKILL");
      assert.equal((await crun.status).signal, "SIGKILL");
      assert.equal(startOf(other.pid) > 0, true, "it runs on");
      assert.equal(await killContainers(root), 0);
      assert.equal(await killContainers(`${root}/none`), 0);
    } finally {
      for (const child of children) {
        try {
          child.kill("SIGKILL");
        } catch {
          // it has ended
        }
        await child.status;
      }
      await Deno.remove(root, { recursive: true });
    }
  },
});
