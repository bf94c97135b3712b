/** Everything that the agent holds, each thing by itself. */
import { createHash } from "../base/hash.ts";
import { SvcError } from "../base/errors.ts";
import { KeyedMutex } from "../base/mutex.ts";
import { waitFor } from "../base/wait_for.ts";
import { Held, type Holder, type Pauses } from "./held.ts";
import type { Choice, Description, HeldStatus } from "./protocol.ts";
import type { HeldRecords } from "./records.ts";

export interface HoldingsOptions {
  /** By kind. */
  holders: Readonly<Record<string, Holder>>;
  records: HeldRecords;
  log: (text: string) => void;
  /** Called when the last one is over. */
  onEmpty: () => void;
  pauses?: Pauses;
}

const PAUSES: Pauses = { first: 500, longest: 15_000 };

export interface HoldAnswer {
  /** It was held before. */
  same: boolean;
  value: unknown;
}

const hash = (value: unknown) => createHash("sha256").update(JSON.stringify(value)).digest("hex");

/** The same deployment at the same server is held once. */
export const idOf = ({ kind, name, place }: Description): string =>
  hash([kind, name, place]).slice(0, 32);

const isChosen = ({ place, name, project }: Description, choice: Choice) =>
  place === choice.place && (choice.name === undefined || choice.name === name) &&
  (choice.project === undefined || choice.project === project);

export class Holdings {
  readonly #options: HoldingsOptions;
  readonly #held = new Map<string, Held>();
  /** Resolves when the entry and the record of what is over are away. */
  readonly #gone = new WeakMap<Held, Promise<void>>();
  readonly #changing = new KeyedMutex();

  constructor(options: HoldingsOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#held.size;
  }

  get status(): HeldStatus[] {
    return [...this.#held.values()].map(({ status }) => status)
      .sort((a, b) => `${a.project ?? ""} ${a.name}` < `${b.project ?? ""} ${b.name}` ? -1 : 1);
  }

  /** Goes on with what an earlier agent held. */
  async takeOver(): Promise<void> {
    const { records, log } = this.#options;
    const found = await records.load((file) => log(`${file} cannot be read, and is removed`));
    for (const [id, record] of found) {
      try {
        this.#add(id, record.description, record);
      } catch (error) {
        // Of a program that could hold more; that one's next command asks for it again.
        log(String(error));
        await records.remove(id);
      }
    }
  }

  #add(id: string, description: Description, record?: ConstructorParameters<typeof Held>[2]): Held {
    const { holders, records, log, onEmpty, pauses = PAUSES } = this.#options;
    const holder = holders[description.kind];
    if (!holder) {
      throw new SvcError(
        "unsupported",
        `Cannot hold ${description.name}: this agent holds nothing of the kind ${description.kind}`,
        { help: "`svc daemon stop`, and do it again: a newer agent is started" },
      );
    }
    const save = (value: Parameters<typeof records.save>[1]) => records.save(id, value);
    const held = new Held(description, { holder, pauses, log, save }, record);
    this.#held.set(id, held);
    this.#gone.set(
      held,
      held.over.then(async (how) => {
        if (how === "over") await records.remove(id).catch((error) => log(String(error)));
        this.#held.delete(id);
        if (this.#held.size === 0) onEmpty();
      }),
    );
    return held;
  }

  /**
   * Holds what is described; resolves when it works, with the holder's value. What is held already is left alone
   * (`same`), unless `again`; another description of the same name replaces the one before. An aborted signal takes
   * back what this call began.
   */
  hold(
    description: Description,
    { again, onProgress, signal }: {
      again?: boolean;
      onProgress: (message: string) => void;
      signal: AbortSignal;
    },
  ): Promise<HoldAnswer> {
    const id = idOf(description);
    return this.#changing.run(id, async () => {
      const there = this.#held.get(id);
      const same = there && hash(there.description.work) === hash(description.work);
      if (same && !again && there.status.state !== "failed") {
        return { same: true, value: await waitFor(there.opened(onProgress), signal) };
      }
      if (there) {
        there.release();
        // The next one of that name writes a record of its own.
        await this.#gone.get(there);
      }
      const held = this.#add(id, description);
      const back = () => held.release();
      signal.addEventListener("abort", back, { once: true });
      if (signal.aborted) back();
      try {
        const value = await Promise.race([held.opened(onProgress), held.over.then(endedEarly)]);
        return { same: false, value };
      } catch (error) {
        // A mistake in the new description loses nothing: what was held before is held again.
        await this.#gone.get(held);
        if (there) {
          const { begin: _, ...description } = there.description;
          this.#add(id, description, { version: 1, description });
        }
        throw error;
      } finally {
        signal.removeEventListener("abort", back);
      }
    });
  }

  /** Ends what is chosen, or everything, and waits for it; tells what it was. */
  async release(choice?: Choice): Promise<HeldStatus[]> {
    const chosen = [...this.#held.values()].filter(({ description }) =>
      !choice || isChosen(description, choice)
    );
    const told = chosen.map(({ status }) => status);
    for (const held of chosen) held.release();
    await Promise.all(chosen.map((held) => this.#gone.get(held)));
    return told;
  }

  /** Ends the holding of everything, and nothing that is held. */
  async leave(): Promise<void> {
    const all = [...this.#held.values()];
    for (const held of all) held.leave();
    await Promise.all(all.map(({ over }) => over));
  }
}

/** `opened` may have rejected with the reason in the same turn: this one is only for what was taken back. */
async function endedEarly(): Promise<never> {
  await Promise.resolve();
  throw new SvcError("cancelled", "Cannot go on: it was taken back before it worked");
}
