/** The parts of a server: each names the parts that it needs, and how it is opened and closed. */

/** A part by its name; `H` is its handle. */
export interface Part<H> {
  readonly name: string;
  /** Only for the type checker. */
  readonly handle?: H;
}

// deno-lint-ignore no-explicit-any -- handles are checked where a row is made
type Needs = Readonly<Record<string, Part<any>>>;

type Handles<N extends Needs> = { [K in keyof N]: N[K] extends Part<infer H> ? H : never };

/** A row of the list of parts. */
export interface Subsystem<H = unknown, N extends Needs = Needs> extends Part<H> {
  /** Parts that are open before this one; `open` gets these and no others. */
  needs: N;
  /** An error that is thrown here ends the start. */
  open(parts: Handles<N>): H | Promise<H>;
  /** Absent: the handle is disposed of, where it can be. */
  close?(handle: NoInfer<H>, parts: Handles<N>): unknown;
}

export const subsystem = <H, N extends Needs>(row: Subsystem<H, N>): Subsystem<H, N> => row;

async function dispose(handle: unknown): Promise<void> {
  const held = handle as Partial<AsyncDisposable & Disposable> | undefined | null;
  if (held?.[Symbol.asyncDispose]) await held[Symbol.asyncDispose]!();
  else held?.[Symbol.dispose]?.();
}

export interface OpenSubsystems extends AsyncDisposable {
  handle<H>(part: Part<H>): H;
}

/**
 * Opens the rows in order, beside the given parts; disposing closes them in reverse. Where one cannot be
 * opened, the earlier ones are closed and its error is thrown.
 */
export async function openSubsystems(
  list: readonly Subsystem[],
  given: Readonly<Record<string, unknown>>,
): Promise<OpenSubsystems> {
  await using opened = new AsyncDisposableStack();
  const handles = new Map(Object.entries(given));
  for (const { name, needs, open, close } of list) {
    const parts = Object.fromEntries(
      Object.entries(needs).map(([as, part]) => {
        if (handles.has(part.name)) return [as, handles.get(part.name)];
        throw new Error(`${name} needs ${part.name}, which is not open`);
      }),
    );
    const handle = await open(parts);
    handles.set(name, handle);
    opened.defer(async () => {
      await (close ? close(handle, parts) : dispose(handle));
    });
  }
  const stack = opened.move();
  return {
    handle: <H>(part: Part<H>) => handles.get(part.name) as H,
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}
