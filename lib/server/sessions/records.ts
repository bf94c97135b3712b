/**
 * Records of deploy sessions on disk, one file per session. A server reads them when it starts: deployments of
 * earlier sessions must not run for ever when no caller resumes them.
 */
import { join } from "node:path";
import type { DeploySpec } from "../../api/deploy_spec.ts";
import { asSvcError } from "../../base/errors.ts";
import { ensureDir, exists, removeTree, syncDir, writeFileAtomic } from "../../base/fs.ts";
import type { Logger } from "../../base/log.ts";

export interface SessionRecord {
  version: 1;
  /** Name of the deployment. */
  name: string;
  /** sha256 in hex of the token that resumes the session. */
  token: string;
  /** Who opened the session, the host of the caller's address, and the time (RFC 3339). */
  subject: string;
  from: string;
  createdAt: string;
  /** False: the caller may not pull, so the spec may use no image of this server. */
  mayPull?: false;
  /** Present until the spec was applied. A session that is resumed after a restart applies it. */
  spec?: DeploySpec;
  /** The spec came with certificates or files. They are not on disk: after a restart it cannot be applied. */
  certified?: true;
  /** The workload has mounts of its caller's files, which end with this server. */
  mounted?: true;
  /** An instance that ends is started again, unless somebody stopped it. */
  restarts?: true;
}

/** Bytes of a record that are read, at most: a spec of the largest size, with JSON's escapes. */
const MAX_RECORD = 16 << 20;
const ENDING = ".json";

export class SessionRecords {
  readonly #root: string;
  readonly #log: Logger;

  constructor(root: string, log: Logger) {
    this.#root = root;
    this.#log = log;
  }

  /** All records. Other files are logged and left alone. Unfinished writes of a crash are removed. */
  async load(): Promise<SessionRecord[]> {
    if (!await exists(this.#root)) return [];
    const records: SessionRecord[] = [];
    for await (const { name: file, isFile } of Deno.readDir(this.#root)) {
      const path = join(this.#root, file);
      // An unfinished write of a crash.
      if (isFile && file.includes(`${ENDING}.tmp-`)) await removeTree(path);
      if (!isFile || !file.endsWith(ENDING)) continue;
      const record = await this.#read(path, file.slice(0, -ENDING.length));
      if (record) records.push(record);
    }
    return records;
  }

  async #read(path: string, name: string): Promise<SessionRecord | undefined> {
    try {
      if ((await Deno.stat(path)).size > MAX_RECORD) throw new Error("it is too large");
      const value = JSON.parse(await Deno.readTextFile(path));
      if (!isRecord(value) || value.name !== name) throw new Error("it is not a session's record");
      return value;
    } catch (error) {
      this.#log.warn("a session's record cannot be read; its deployment stays", { path, error });
      return undefined;
    }
  }

  /** The record is durable when this resolves. */
  async save(record: SessionRecord): Promise<void> {
    try {
      await ensureDir(this.#root, 0o700);
      await writeFileAtomic(this.#path(record.name), JSON.stringify(record), { mode: 0o600 });
    } catch (error) {
      throw asSvcError(error, `Cannot put the session of ${record.name} on record`);
    }
  }

  async remove(name: string): Promise<void> {
    if (!await exists(this.#root)) return;
    await removeTree(this.#path(name));
    await syncDir(this.#root);
  }

  #path(name: string): string {
    return join(this.#root, name + ENDING);
  }
}

function isRecord(value: unknown): value is SessionRecord {
  const record = value as Partial<SessionRecord> | null;
  return typeof record === "object" && record?.version === 1 &&
    [record.name, record.token, record.subject, record.from, record.createdAt].every((text) =>
      typeof text === "string"
    );
}
