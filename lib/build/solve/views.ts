/** Stages that other steps of a build read from; each is mounted once, until the build has ended. */
import type { Workspace } from "./workspace.ts";

export class Views implements AsyncDisposable {
  #workspace: Workspace;
  #opened = new Map<string | undefined, ReturnType<Workspace["view"]>>();

  constructor(workspace: Workspace) {
    this.#workspace = workspace;
  }

  /** The mounted files of a committed snapshot, read-only; without a snapshot, an empty folder. */
  async root(snapshot: string | undefined): Promise<string> {
    let opened = this.#opened.get(snapshot);
    if (!opened) this.#opened.set(snapshot, opened = this.#workspace.view(snapshot));
    return (await opened).root;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const opened = await Promise.allSettled(this.#opened.values());
    this.#opened.clear();
    for (const view of opened) {
      if (view.status === "fulfilled") await view.value[Symbol.asyncDispose]();
    }
  }
}
