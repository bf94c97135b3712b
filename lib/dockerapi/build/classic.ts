/** The stream of docker's classic builder: steps and their output as text, the image's id as `aux`. */
import type { BuildEvent } from "../../api/build.ts";
import { SvcError } from "../../base/errors.ts";
import type { Tell } from "../messages.ts";

/** Tells events as the classic builder would; `quiet`: the image's id alone. */
export class ClassicStream {
  readonly #names = new Map<string, string>();
  #steps = 0;
  /** Docker's id of the image, once the build has ended. */
  imageId?: string;

  constructor(
    private readonly tell: Tell,
    private readonly options: { quiet: boolean; names: readonly string[] },
  ) {}

  /** Throws the build's failure. */
  event(event: BuildEvent): void {
    if (event.type === "error") {
      const { code, detail } = event.error;
      throw new SvcError(code, detail, { help: "" });
    }
    if (event.type === "result") this.#result(event.result.imageId);
    else if (!this.options.quiet) this.#progress(event);
  }

  #say(stream: string): void {
    this.tell({ stream });
  }

  #progress(event: BuildEvent): void {
    switch (event.type) {
      case "vertex":
        this.#names.set(event.id, event.name);
        break;
      case "start":
        this.#say(`Step ${++this.#steps} : ${this.#names.get(event.id) ?? event.id}\n`);
        break;
      case "cached":
        this.#say(`Step ${++this.#steps} : ${this.#names.get(event.id) ?? event.id}\n`);
        this.#say(" ---> Using cache\n");
        break;
      case "output":
        this.#say(event.text);
        break;
      case "warning":
        this.#say(`[Warning] ${event.message}\n`);
        break;
      case "queued":
        this.#say(`Waiting for other builds to end: place ${event.place} in the queue\n`);
        break;
    }
  }

  #result(id: string): void {
    this.imageId = id;
    const { quiet, names } = this.options;
    if (quiet) return this.#say(`${id}\n`);
    this.tell({ aux: { ID: id } });
    this.#say(`Successfully built ${id.slice(7, 19)}\n`);
    for (const name of names) {
      const tagged = /:[^/]*$/.test(name) ? name : `${name}:latest`;
      this.#say(`Successfully tagged ${tagged}\n`);
    }
  }
}
