/** Packs the result's layers while later steps still run: a build seldom keeps all processors busy. */
import type { Engine, Outcome } from "../solve/engine_context.ts";
import { Layers, type LayersOptions } from "./layers.ts";
import type { Packing } from "./packer_wire.ts";

export interface AheadOptions extends Pick<LayersOptions, "foreign" | "signal"> {
  /** The packings that the outputs will need. */
  packings: readonly Packing[];
}

/** Disposing ends the packing that is under way and removes the packed files. */
export class LayersAhead implements AsyncDisposable {
  readonly layers: Layers;
  #packings: readonly Packing[];
  #folder: AsyncDisposable;
  #abort: AbortController;
  #begun: Promise<unknown>[] = [];

  private constructor(
    layers: Layers,
    packings: readonly Packing[],
    folder: AsyncDisposable,
    abort: AbortController,
  ) {
    this.layers = layers;
    this.#packings = packings;
    this.#folder = folder;
    this.#abort = abort;
  }

  static async open(
    engine: Engine,
    { packings, foreign, signal }: AheadOptions,
  ): Promise<LayersAhead> {
    const folder = await engine.workspace.temporary();
    const abort = new AbortController();
    const both = AbortSignal.any([signal, abort.signal]);
    const layers = new Layers(engine, { folder: folder.path, foreign, signal: both });
    return new LayersAhead(layers, packings, folder, abort);
  }

  /**
   * Starts packing a finished step of the result. A failure reaches the export, which asks for the same
   * layer.
   */
  begin(outcome: Outcome, epoch: number | undefined): void {
    for (const packing of this.#packings) {
      const packed = this.layers.own(outcome, packing, epoch);
      packed.catch(() => {});
      this.#begun.push(packed);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#abort.abort();
    await Promise.allSettled(this.#begun);
    await this.#folder[Symbol.asyncDispose]();
  }
}
