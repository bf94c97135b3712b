/** The logs of containers as files in one folder, in the format of {@linkcode readLog}. */
import { join } from "node:path";
import { removeTree } from "../../base/fs.ts";
import type { ContainerLogs } from "./engine.ts";
import { readLog } from "./log_file.ts";
import { endOfLog, readOutput } from "./output_file.ts";

/** Bytes at which a log is rotated; one older file is kept. */
export const LOG_LIMIT = 16 * 1024 ** 2;

export class LogFiles implements ContainerLogs {
  #folder: string;
  #marks: readonly string[];

  /** `marks`: endings of further files beside a log, which go with it. */
  constructor(folder: string, marks: readonly string[] = []) {
    this.#folder = folder;
    this.#marks = marks;
  }

  path(key: string): string {
    return join(this.#folder, `${key}.log`);
  }

  read(key: string, instance: string, options?: Parameters<ContainerLogs["read"]>[2]) {
    return readLog(this.path(key), instance, options);
  }

  end(key: string) {
    return endOfLog(this.path(key));
  }

  output(key: string, options: Parameters<ContainerLogs["output"]>[1]) {
    return readOutput(this.path(key), options);
  }

  async remove(key: string): Promise<void> {
    for (const end of ["", ".1", ...this.#marks]) await removeTree(`${this.path(key)}${end}`);
  }
}
