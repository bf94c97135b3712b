/**
 * Makes a {@linkcode DeploySpec} of text or of parsed JSON. Import it where it is used: it brings the YAML
 * reader and the schema library along.
 */
import { isNode, LineCounter, parseDocument } from "yaml";
import { SvcError } from "../base/errors.ts";
import type { DeploySpec } from "./deploy_spec.ts";
import { deploySpecSchema } from "./deploy_spec_schema.ts";

type Path = readonly PropertyKey[];

/** One error in a spec. `path` is as in "ports[1].container", empty for the whole spec. */
export interface SpecIssue {
  path: string;
  message: string;
  /** Line from 1; present where the spec was text. */
  line?: number;
  column?: number;
}

/** `ports[1].container`; a key that is not a word is quoted. */
function formatPath(path: Path): string {
  return path.map((part, index) => {
    if (typeof part === "number") return `[${part}]`;
    const key = String(part);
    if (!/^[\w-]+$/.test(key)) return `[${JSON.stringify(key)}]`;
    return index === 0 ? key : `.${key}`;
  }).join("");
}

function valueAt(value: unknown, path: Path): unknown {
  return path.reduce<unknown>(
    (inner, part) => (inner as Record<PropertyKey, unknown> | null | undefined)?.[part],
    value,
  );
}

type Locate = (path: Path) => { line: number; column: number } | undefined;

function check(value: unknown, subject: string, locate?: Locate): DeploySpec {
  const result = deploySpecSchema.safeParse(value);
  if (result.success) return result.data;
  const issues = result.error.issues.map((issue): SpecIssue => {
    // svc's own rules report values that are present, though a shorthand lacks the path of its long form.
    const own = issue.code === "unrecognized_keys" || issue.code === "custom";
    const missing = !own && issue.path.length > 0 &&
      valueAt(value, issue.path) === undefined;
    const object = issue.code === "invalid_type" && issue.expected === "object";
    return {
      path: formatPath(issue.path),
      message: missing ? "required" : object ? "expected fields" : issue.message,
      ...locate?.(issue.path),
    };
  });
  const words = issues.map(({ path, message, line, column }) =>
    `${path ? `${path}: ` : ""}${message}${line ? ` (line ${line}, column ${column})` : ""}`
  );
  throw new SvcError("spec_invalid", `Cannot use ${subject}: ${words.join("\n  ")}`, {
    detail: { issues },
  });
}

/**
 * Checks a value, such as a request's JSON. Idempotent: a checked spec passes unchanged. Throws
 * `spec_invalid` with every issue in the message and, as data, in `detail.issues`.
 */
export function validateDeploySpec(value: unknown): DeploySpec {
  return check(value, "deployment spec");
}

/**
 * Reads YAML or JSON text. Throws `spec_invalid`; malformed text is reported with line and column, and
 * `file` stands in the message. `amend` changes the value before it is checked (flags of a command line).
 */
export function parseDeploySpec(
  text: string,
  options: { file?: string; amend?: (value: unknown) => unknown } = {},
): DeploySpec {
  const subject = options.file ?? "deployment spec";
  const lines = new LineCounter();
  const document = parseDocument(text, {
    lineCounter: lines,
    merge: true,
    prettyErrors: false,
    strict: true,
  });
  const broken = document.errors[0];
  if (broken) {
    const { line, col } = lines.linePos(broken.pos[0]);
    const message = broken.code === "MULTIPLE_DOCS"
      ? "expected one document, found several"
      : broken.message;
    throw new SvcError(
      "spec_invalid",
      `Cannot read ${subject}: line ${line}, column ${col}: ${message}`,
      { detail: { line, column: col } },
    );
  }
  let value: unknown;
  try {
    value = document.toJS({ maxAliasCount: 1000 });
  } catch (error) {
    throw new SvcError("spec_invalid", `Cannot read ${subject}: ${(error as Error).message}`, {
      cause: error,
    });
  }
  if (value === null || value === undefined) {
    throw new SvcError("spec_invalid", `Cannot read ${subject}: it is empty`);
  }
  return check(options.amend ? options.amend(value) : value, subject, (path) => {
    for (let depth = path.length; depth > 0; depth--) {
      const node = document.getIn(path.slice(0, depth), true);
      if (!isNode(node) || !node.range) continue;
      const { line, col } = lines.linePos(node.range[0]);
      return { line, column: col };
    }
    return undefined;
  });
}
