import assert from "node:assert/strict";
import { makeOwnFolder, requireOwnFolder } from "./runtime_folder.ts";

Deno.test({
  name: "a user's own folder: made and kept for the user alone; another's, or a link, is refused",
  ignore: Deno.build.os === "windows",
  fn: async () => {
    const parent = await Deno.makeTempDir();
    try {
      const folder = `${parent}/svc`;
      const mode = () => Deno.statSync(folder).mode! & 0o777;
      await requireOwnFolder(folder);
      await makeOwnFolder(folder);
      assert.equal(mode(), 0o700);
      // Whoever could only read has put nothing there.
      await Deno.chmod(folder, 0o755);
      await makeOwnFolder(folder);
      assert.equal(mode(), 0o700);
      const refused = async (path: string, message: RegExp) => {
        for (const use of [requireOwnFolder, makeOwnFolder]) {
          await assert.rejects(use(path), { code: "denied", message });
        }
      };
      await Deno.symlink(folder, `${parent}/link`);
      await refused(`${parent}/link`, /it is not a folder/);
      for (const wide of [0o770, 0o702]) {
        await Deno.chmod(folder, wide);
        await refused(folder, /other users may write to it/);
        assert.equal(mode(), wide, "nobody is shut out of what may be theirs");
      }
      // Root's own test has somebody else's; others see root's.
      if (Deno.uid() === 0) await Deno.chown(folder, 65534, 65534);
      await refused(Deno.uid() === 0 ? folder : "/", /it is not this user's folder/);
    } finally {
      await Deno.remove(parent, { recursive: true });
    }
  },
});
