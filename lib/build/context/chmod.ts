/** `--chmod`: octal, or symbolic as chmod(1) has it, evaluated against each file's own mode. */
import { SvcError } from "../../base/errors.ts";

const CLAUSE = /^([ugoa]*)((?:[-+=](?:[rwxXst]*|[ugo]))+)$/;

const SHIFT: Record<string, number> = { u: 6, g: 3, o: 0 };

function bits(permissions: string, mode: number, directory: boolean, who: string): number {
  let result = 0;
  for (const letter of permissions) {
    let one = 0;
    if (letter === "r") one = 4;
    else if (letter === "w") one = 2;
    else if (letter === "x") one = 1;
    else if (letter === "X") one = directory || (mode & 0o111) !== 0 ? 1 : 0;
    else if (letter in SHIFT) one = (mode >> SHIFT[letter]) & 7;
    else if (letter === "s") {
      if (who.includes("u")) result |= 0o4000;
      if (who.includes("g")) result |= 0o2000;
    } else if (letter === "t") result |= 0o1000;
    for (const target of who) result |= one << SHIFT[target];
  }
  return result;
}

function apply(clause: string, mode: number, directory: boolean): number {
  const [, who, actions] = CLAUSE.exec(clause)!;
  const whom = who === "" || who.includes("a") ? "ugo" : who;
  for (const [, operator, permissions] of actions.matchAll(/([-+=])([rwxXstugo]*)/g)) {
    const set = bits(permissions, mode, directory, whom);
    if (operator === "+") mode |= set;
    else if (operator === "-") mode &= ~set;
    else {
      let mask = 0;
      for (const target of whom) mask |= 7 << SHIFT[target];
      if (whom.includes("u")) mask |= 0o4000;
      if (whom.includes("g")) mask |= 0o2000;
      mode = (mode & ~mask) | set;
    }
  }
  return mode;
}

export const isOctal = (text: string): boolean => /^[0-7]{1,5}$/.test(text);

/** A function from a file's mode to its new one. Throws `dockerfile_invalid`. */
export function parseChmod(text: string): (mode: number, directory: boolean) => number {
  if (isOctal(text)) {
    const mode = parseInt(text, 8);
    if (mode <= 0o7777) return () => mode;
  }
  const clauses = text.split(",");
  if (!clauses.every((clause) => CLAUSE.test(clause))) {
    throw new SvcError(
      "dockerfile_invalid",
      `Cannot use --chmod=${text}: expected octal permissions such as 755, or u=rwX,go=rX`,
    );
  }
  return (mode, directory) =>
    clauses.reduce((result, clause) => apply(clause, result, directory), mode & 0o7777);
}
