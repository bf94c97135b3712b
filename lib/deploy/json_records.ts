/** Records of deployments on disk: one JSON file each, replaced atomically. */
import { join } from "node:path";
import { asSvcError } from "../base/errors.ts";
import { ensureDir, exists, readJson, removeTree, syncDir, writeFileAtomic } from "../base/fs.ts";

export class JsonRecords<R extends { name: string }> {
  readonly root: string;

  constructor(root: string) {
    this.root = root;
  }

  /** All records, in the order of their names. */
  async load(): Promise<R[]> {
    if (!await exists(this.root)) return [];
    const records: R[] = [];
    for await (const entry of Deno.readDir(this.root)) {
      // A write that a crash cut off. The file holds a spec, whose secrets must not stay behind.
      if (entry.name.includes(".json.tmp-")) await removeTree(join(this.root, entry.name));
      if (!entry.isFile || !entry.name.endsWith(".json")) continue;
      const record = await readJson<R>(join(this.root, entry.name));
      if (record) records.push(record);
    }
    return records.sort((a, b) => a.name < b.name ? -1 : 1);
  }

  /** Durable when it resolves. */
  async save(record: R): Promise<void> {
    try {
      await ensureDir(this.root, 0o700);
      await writeFileAtomic(join(this.root, `${record.name}.json`), JSON.stringify(record), {
        mode: 0o600,
      });
    } catch (error) {
      throw asSvcError(error, `Cannot put deployment ${record.name} on record`);
    }
  }

  async remove(name: string): Promise<void> {
    if (!await exists(this.root)) return;
    await removeTree(join(this.root, `${name}.json`));
    await syncDir(this.root);
  }
}
