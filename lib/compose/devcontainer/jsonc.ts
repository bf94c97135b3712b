/** JSON with comments and with commas before closing brackets, as devcontainer.json is written. */
import { SvcError } from "../../base/errors.ts";

/** Strings; comments; a comma that only blanks and comments part from a closing bracket. */
const COMMENT = String.raw`\/\/[^\n]*|\/\*(?:[^*]|\*(?!\/))*\*\/`;
const PARTS = new RegExp(
  String.raw`"(?:[^"\\]|\\.)*"|${COMMENT}|,(?=(?:\s|${COMMENT})*[}\]])`,
  "g",
);

const blank = (text: string) => text.replace(/[^\n]/g, " ");

/** Throws `compose_invalid` with the file and, where it is known, the line. */
export function parseJsonc(text: string, file: string): unknown {
  const plain = text.replace(/^\uFEFF/, "").replace(
    PARTS,
    (part) => part.startsWith('"') ? part : blank(part),
  );
  try {
    return JSON.parse(plain);
  } catch (error) {
    const { message } = error as Error;
    const [, position] = /position (\d+)/.exec(message) ?? [];
    const line = position && plain.slice(0, Number(position)).split("\n").length;
    throw new SvcError(
      "compose_invalid",
      `Cannot read ${file}${line ? `:${line}` : ""}: ${message.replace(/ \(line .*\)$/, "")}`,
    );
  }
}
