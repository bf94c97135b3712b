/** Deploy sessions on disk: what a server that starts must not leave running for ever. */
import { join } from "node:path";
import type { DeploySpec } from "../../api/deploy_spec.ts";
import { asSvcError } from "../../base/errors.ts";
import { ensureDir, exists, removeTree, syncDir, writeFileAtomic } from "../../base/fs.ts";
import type { Logger } from "../../base/log.ts";

export interface SessionRecord {
  version: 1;
  /** Of the deployment. */
  name: string;
  /** sha256 in hex of the secret that resumes it. */
  token: string;
  /** Who opened it, from where ("host"), and when (RFC 3339). */
  subject: string;
  from: string;
  createdAt: string;
  /** False: the spec may name no image of this server. */
  mayPull?: false;
  /** Until it is applied: a resumed session goes on with it. */
  spec?: DeploySpec;
  /** The spec came with certificates, whose keys are on no disk. */
  certified?: true;
}

/** Bytes of a record that are read, at most: of a spec's limit and what JSON makes of it. */
const MAX_RECORD = 16 << 20;
const ENDING = ".json";

export class SessionRecords {
  readonly #root: string;
  readonly #log: Logger;

  constructor(root: string, log: Logger) {
    this.#root = root;
    this.#log = log;
  }

  /** What is no record is told and left alone. */
  async load(): Promise<SessionRecord[]> {
    if (!await exists(this.#root)) return [];
    const records: SessionRecord[] = [];
    for await (const { name: file, isFile } of Deno.readDir(this.#root)) {
      const path = join(this.#root, file);
      // Of a write that a crash cut off.
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
      if (!isRecord(value) || value.name !== name) throw new Error("it is no session's record");
      return value;
    } catch (error) {
      this.#log.warn("a session's record is not read; its deployment stays", { path, error });
      return undefined;
    }
  }

  /** Durable when it resolves. */
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
