/** What is wrong with a value, before it is known in which file and line the value stands. */
import { SvcError } from "../base/errors.ts";
import { type Path, pathText } from "./shape/shape.ts";
import { type Place, placeAt, type Value } from "./yaml/tree.ts";

export class Problem extends Error {
  override readonly name = "Problem";
  constructor(readonly path: Path, readonly what: string, readonly help?: string) {
    super(`${pathText(path)}: ${what}`);
  }
}

export function placeText(place: Place | undefined, otherwise: string): string {
  return place ? `${place.file === "-" ? "standard input" : place.file}:${place.line}` : otherwise;
}

/** The error of a file (or of a whole project) for a problem with the value at `place`. */
export function problemAt(problem: Problem, place: Place | undefined, file: string): SvcError {
  const where = placeText(place, file);
  const path = problem.path.length > 0 ? `${problem.path.join(".")}: ` : "";
  return new SvcError("compose_invalid", `Cannot read ${where}: ${path}${problem.what}`, {
    cause: problem,
    ...(problem.help && { help: problem.help }),
  });
}

/** What is thrown; of a problem with a value of `root` the error with file and line. */
export function placed(thrown: unknown, root: Value, file: string): unknown {
  return thrown instanceof Problem ? problemAt(thrown, placeAt(root, thrown.path), file) : thrown;
}

/** Runs a pass over `root`; its problems become errors with file and line. */
export function withPlaces<T>(root: Value, file: string, pass: () => T): T {
  try {
    return pass();
  } catch (error) {
    throw placed(error, root, file);
  }
}
