/** JSON with comments and with commas before closing brackets, as devcontainer.json is written. */
import { SvcError } from "../../base/errors.ts";

/**
 * A string; a comment; a comma before a closing bracket. Other people write these files: a string or a comment without
 * an end goes to the end of the text, so that none of these has to be tried from two places.
 */
const STRING = String.raw`"(?:[^"\\]|\\[^]?)*(?:"|$)`;
const COMMENTS = new RegExp(String.raw`${STRING}|\/\/[^\n]*|\/\*[^]*?(?:\*\/|$)`, "g");
const COMMAS = new RegExp(String.raw`${STRING}|,(?=\s*[}\]])`, "g");

const blank = (text: string) => text.replace(/[^\n]/g, " ");

/** Throws `compose_invalid` with the file and, where it is known, the line. */
export function parseJsonc(text: string, file: string): unknown {
  const without = (text: string, parts: RegExp) =>
    text.replace(parts, (part) => part.startsWith('"') ? part : blank(part));
  const plain = without(without(text.replace(/^\uFEFF/, ""), COMMENTS), COMMAS);
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
