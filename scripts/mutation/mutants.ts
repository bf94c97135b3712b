/** Mutants of a TypeScript source: the same source with one small defect each. */
import { parse } from "@babel/parser";

export interface Mutant {
  /** Line of the first difference, from 1. */
  line: number;
  /** The original and the changed text: "a < b → a <= b", and the line, or a number too, where the source has several. */
  change: string;
  /** The whole source with the change. */
  source: string;
}

interface Node {
  type: string;
  start: number;
  end: number;
  loc: { start: { line: number } };
  [member: string]: unknown;
}

interface Edit {
  node: Node;
  start: number;
  end: number;
  text: string;
}

/** For each operator, a plausible mistake. */
const OPERATORS: Record<string, string> = {
  "===": "!==",
  "!==": "===",
  "<": "<=",
  "<=": "<",
  ">": ">=",
  ">=": ">",
  "&&": "||",
  "||": "&&",
  "+": "-",
  "-": "+",
};

function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null && "type" in value && "start" in value;
}

function* nodesOf(node: Node): Generator<Node> {
  yield node;
  for (const [member, value] of Object.entries(node)) {
    // Types have no effect when the program runs.
    if (/^(typeAnnotation|typeParameters|typeArguments|returnType|loc)$/.test(member)) continue;
    for (const child of Array.isArray(value) ? value : [value]) {
      if (isNode(child) && !/^TS(Interface|TypeAlias)/.test(child.type)) yield* nodesOf(child);
    }
  }
}

/** The edits of a binary operator, which stands in the text between its operands. */
function operatorEdit(node: Node, source: string): Edit[] {
  const { left, right, operator } = node as Node & { left: Node; right: Node; operator: string };
  const other = OPERATORS[operator];
  if (!other) return [];
  const at = source.indexOf(operator, left.end);
  return at < 0 || at >= right.start
    ? []
    : [{ node, start: at, end: at + operator.length, text: other }];
}

function whole(node: Node, text: string): Edit {
  return { node, start: node.start, end: node.end, text };
}

function editsOf(node: Node, source: string): Edit[] {
  switch (node.type) {
    case "BinaryExpression":
    case "LogicalExpression":
      return operatorEdit(node, source);
    case "BooleanLiteral":
      return [whole(node, String(!node.value))];
    case "NumericLiteral":
      // Limits and times may be off by one without any test noticing.
      return Number(node.value) < 10 ? [whole(node, String(Number(node.value) + 1))] : [];
    case "UnaryExpression":
      return node.operator === "!"
        ? [{ node, start: node.start, end: node.start + 1, text: "" }]
        : [];
    case "IfStatement":
    case "ConditionalExpression":
      return [whole(node.test as Node, "true"), whole(node.test as Node, "false")];
    case "ThrowStatement":
      return [whole(node, ";")];
    case "ExpressionStatement":
      return /^(Await|Call|Assignment)Expression$/.test((node.expression as Node).type)
        ? [whole(node, ";")]
        : [];
    case "ReturnStatement":
      return node.argument && (node.argument as Node).type !== "BooleanLiteral"
        ? [whole(node.argument as Node, "undefined")]
        : [];
    default:
      return [];
  }
}

/** The text on one line, shortened. */
const shown = (text: string) => {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > 90 ? `${line.slice(0, 89)}…` : line;
};

/** Every mutant of a source, in the order of the source. Throws where it does not parse. */
export function mutantsOf(source: string): Mutant[] {
  const program = parse(source, { sourceType: "module", plugins: ["typescript"] });
  const edits = [...nodesOf(program.program as unknown as Node)]
    .flatMap((node) => editsOf(node, source))
    // `return undefined` is what it is.
    .filter(({ start, end, text }) => source.slice(start, end) !== text)
    .sort((a, b) => a.start - b.start);
  const lines = source.split("\n");
  const mutants = edits.map(({ node, start, end, text }) => {
    const before = source.slice(node.start, node.end);
    const after = source.slice(node.start, start) + text + source.slice(end, node.end);
    return {
      line: source.slice(0, start).split("\n").length,
      change: `${shown(before)} → ${shown(after)}`,
      source: source.slice(0, start) + text + source.slice(end),
    };
  });
  return apart(
    apart(mutants, ({ change, line }) => `${change} in ${shown(lines[line - 1])}`),
    ({ change }, nth) => nth === 1 ? change : `${change} (${nth})`,
  );
}

/** Renames those whose changes read alike; `nth` counts them from 1. */
function apart(
  mutants: readonly Mutant[],
  rename: (mutant: Mutant, nth: number) => string,
): Mutant[] {
  const alike = Map.groupBy(mutants, ({ change }) => change);
  return mutants.map((mutant) => {
    const group = alike.get(mutant.change)!;
    return group.length === 1
      ? mutant
      : { ...mutant, change: rename(mutant, group.indexOf(mutant) + 1) };
  });
}
