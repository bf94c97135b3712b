/** `--name[=value]` words between an instruction's keyword and its arguments. */
import { suggestion } from "../../base/nearest.ts";

export interface Flag {
  name: string;
  /** Absent where there was no "=". */
  value?: string;
}

export type FlagType = "text" | "list" | "boolean";

/** Takes the flags off the front; quotes around values and escapes are removed. `--` ends them. */
export function takeFlags(text: string, escape: string): { flags: Flag[]; rest: string } {
  const flags: Flag[] = [];
  let at = 0;
  for (;;) {
    while (at < text.length && /\s/.test(text[at])) at++;
    if (!text.startsWith("--", at)) return { flags, rest: text.slice(at) };
    let word = "";
    let quote = "";
    for (; at < text.length && (quote !== "" || !/\s/.test(text[at])); at++) {
      const char = text[at];
      if (char === quote) quote = "";
      else if (quote === "" && (char === "'" || char === '"')) quote = char;
      else if (char === escape) word += text[++at] ?? "";
      else word += char;
    }
    if (word === "--") return { flags, rest: text.slice(at).trimStart() };
    const equals = word.indexOf("=");
    flags.push(
      equals === -1
        ? { name: word.slice(2) }
        : { name: word.slice(2, equals), value: word.slice(equals + 1) },
    );
  }
}

/** The flags of one instruction, to be checked against its known flags. */
export class FlagSet {
  private readonly flags: Flag[];
  private readonly fail: (reason: string) => Error;

  constructor(flags: Flag[], fail: (reason: string) => Error) {
    this.flags = flags;
    this.fail = fail;
  }

  /** Throws for unknown flags, for repeated flags that are no lists, and for missing or needless values. */
  check(known: Record<string, FlagType>): void {
    const seen = new Set<string>();
    for (const { name, value } of this.flags) {
      const type = Object.hasOwn(known, name) ? known[name] : undefined;
      if (type === undefined) {
        const names = Object.keys(known);
        const near = suggestion(name, names, "--");
        const none = names.length === 0 ? "; the instruction has no flags" : "";
        throw this.fail(`unknown flag --${name}${near || none}`);
      }
      if (seen.has(name) && type !== "list") throw this.fail(`flag --${name} is given twice`);
      seen.add(name);
      if (type === "boolean") {
        if (value !== undefined && !/^(true|false)$/i.test(value)) {
          throw this.fail(`flag --${name} is true or false, not ${JSON.stringify(value)}`);
        }
      } else if (value === undefined) throw this.fail(`flag --${name} needs a value`);
    }
  }

  text(name: string): string | undefined {
    return this.flags.find((flag) => flag.name === name)?.value;
  }

  list(name: string): string[] {
    return this.flags.filter((flag) => flag.name === name).map((flag) => flag.value ?? "");
  }

  /** Undefined where the flag is absent. */
  boolean(name: string): boolean | undefined {
    const flag = this.flags.find((flag) => flag.name === name);
    return flag && flag.value?.toLowerCase() !== "false";
  }
}
