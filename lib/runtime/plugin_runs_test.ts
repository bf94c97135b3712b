import assert from "node:assert/strict";
import { silent } from "../base/log.ts";
import { pluginsEnded } from "./plugin_runs.ts";

Deno.test({
  name: "plugins: those that an ended server has left at work are waited for, others are not",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-plugins-" });
    const [ours, theirs] = [`${folder}/netns`, `${folder}/netns-of-others`];
    const plugin = (netns: string) =>
      new Deno.Command("sh", {
        args: ["-c", "echo begun; read end"],
        env: { CNI_NETNS: `${netns}/one` },
        stdin: "piped",
        stdout: "piped",
      }).spawn();
    const [waited, other] = [plugin(ours), plugin(theirs)];
    try {
      for (const { stdout } of [waited, other]) {
        for await (const _ of stdout) break;
      }
      const told: unknown[] = [];
      const log = { ...silent, warn: (_: string, fields: unknown) => void told.push(fields) };
      await pluginsEnded([ours], log, 0);
      assert.deepEqual(told.splice(0), [{ plugins: [`${waited.pid}`] }]);
      let over = false;
      const ended = pluginsEnded([`${folder}/none`, ours], log).finally(() => over = true);
      // It has been looked for at least once by then.
      await pluginsEnded([ours], silent, 0);
      assert.equal(over, false);
      await waited.stdin.close();
      await ended;
      assert.deepEqual(told, []);
    } finally {
      await waited.stdin.close().catch(() => {/* it is closed */});
      await other.stdin.close();
      await Promise.all([waited.status, other.status]);
      await Deno.remove(folder, { recursive: true });
    }
  },
});
