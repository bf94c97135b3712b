/** Names of containers, and of the deployments that they are. */
import { invalid } from "../errors.ts";
import { short } from "../ids.ts";

const NAME = /^[a-zA-Z0-9][a-zA-Z0-9_.-]+$/;

/** The name without its slash. Throws `argument_invalid`. */
export function checkName(text: string): string {
  const name = text.replace(/^\//, "");
  if (NAME.test(name)) return name;
  throw invalid(
    `Invalid container name (${text}), only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed`,
  );
}

const FIRST =
  "amber brave calm deep early fair glad high jolly keen light mild neat open plain quick";
const SECOND =
  "birch brook cedar cloud creek dune elm fern field grove hill lake maple moss oak river";

const pick = (words: string, byte: number) => words.split(" ")[byte % 16];

/** A name for a container that was given none. */
export function someName(taken: (name: string) => boolean): string {
  for (;;) {
    const [a, b, c] = crypto.getRandomValues(new Uint8Array(3));
    const name = `${pick(FIRST, a)}_${pick(SECOND, b)}${c}`;
    if (!taken(name)) return name;
  }
}

/** Leaves room for "-0" after it, and for a part of the id. */
const LONGEST = 50;

/**
 * A DNS label for the container's deployment: its name where that is one and nobody has it, else with a part of the
 * id.
 */
export function deploymentName(
  name: string,
  id: string,
  taken: (name: string) => boolean,
): string {
  const label = name.toLowerCase().replace(/[^a-z0-9-]+/g, "-").replace(/^-+|-+$/g, "")
    .slice(0, LONGEST).replace(/-+$/, "");
  if (label === name && !taken(label)) return label;
  return `${label || "container"}-${short(id)}`.slice(0, 61);
}
