/** Small files that the steps of a build only read, such as /etc/hosts: one for each text, until the build has ended. */
import { writeOwned } from "./step_files.ts";
import type { Workspace } from "./workspace.ts";

export class StepTexts implements AsyncDisposable {
  #workspace: Workspace;
  #folder: ReturnType<Workspace["temporary"]> | undefined;
  #paths = new Map<string, Promise<string>>();

  constructor(workspace: Workspace) {
    this.#workspace = workspace;
  }

  /** The path of a file with this text, which everybody may read. */
  path(text: string): Promise<string> {
    let path = this.#paths.get(text);
    if (!path) this.#paths.set(text, path = this.#write(text, `${this.#paths.size}`));
    return path;
  }

  async #write(text: string, name: string): Promise<string> {
    const folder = await (this.#folder ??= this.#workspace.temporary());
    const path = `${folder.path}/${name}`;
    await writeOwned(path, text, { mode: 0o644, uid: 0, gid: 0 });
    return path;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.allSettled(this.#paths.values());
    await (await this.#folder)?.[Symbol.asyncDispose]();
  }
}
