/** Interpolates the text of a tree, and makes numbers and booleans of text where a field wants them. */
import { type Interpolator, TemplateError } from "./interpolate.ts";
import { Problem } from "./problem.ts";
import { changeChildren, type Path, type Shape } from "./shape/shape.ts";
import { Float, type Value } from "./yaml/tree.ts";

const BOOLEANS: Record<string, boolean> = {
  true: true,
  y: true,
  yes: true,
  on: true,
  false: false,
  n: false,
  no: false,
  off: false,
};

const WHOLE = /^[-+]?\d+$/;
const DECIMAL = /^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$/;

/** The boolean or the number that a text stands for. */
function cast(text: string, shape: Shape, path: Path): Value {
  switch (shape.result) {
    case "flag":
    case "switch": {
      if (!shape.takes.includes("boolean")) return text;
      const value = BOOLEANS[text.toLowerCase()];
      if (value === undefined) {
        throw new Problem(path, `${JSON.stringify(text)} is neither true nor false`);
      }
      return value;
    }
    case "count":
    case "number":
    case "ulimit":
      if (WHOLE.test(text) && Number.isSafeInteger(Number(text))) return Number(text);
      throw new Problem(path, `${JSON.stringify(text)} is no whole number`);
    case "single":
      if (DECIMAL.test(text)) return new Float(Number(text));
      throw new Problem(path, `${JSON.stringify(text)} is no number`);
    default:
      return text;
  }
}

/** Works on the tree itself. Throws {@linkcode Problem}. */
export function interpolateTree(
  value: Value,
  shape: Shape | undefined,
  interpolator: Interpolator,
  path: Path = [],
): Value {
  if (typeof value === "string") {
    try {
      const text = interpolator.substitute(value);
      return shape ? cast(text, shape, path) : text;
    } catch (error) {
      if (!(error instanceof TemplateError)) throw error;
      throw new Problem(path, error.message, error.help);
    }
  }
  return changeChildren(
    value,
    shape,
    path,
    (child, of, at) => interpolateTree(child, of, interpolator, at),
  );
}
