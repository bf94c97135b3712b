/** How the wizard asks: line by line on a pipe (here), with menus on a terminal (menus.ts). */
import { SvcError } from "../../base/errors.ts";
import type { Io } from "../../base/terminal.ts";

export interface Choice {
  value: string;
  label: string;
}

export interface TextQuestion {
  initial?: string;
  /** What is wrong with an answer; undefined where it is valid. */
  check?: (answer: string) => string | undefined;
  secret?: boolean;
}

/** The answer that goes back to the previous question. */
export const BACK = "<";

export interface Ask {
  /** A choice's value, or {@linkcode BACK}. */
  select(question: string, choices: readonly Choice[], initial?: string): Promise<string>;
  /** Text without surrounding blanks, or {@linkcode BACK}. */
  text(question: string, options?: TextQuestion): Promise<string>;
}

/** Questions on standard error, answers a line each from standard input. */
export function plainAsk(io: Io): Ask {
  const decoder = new TextDecoder();
  const reader = io.stdin.readable.getReader();
  let rest = "";
  const line = async (): Promise<string> => {
    for (;;) {
      const at = rest.indexOf("\n");
      if (at >= 0) {
        const found = rest.slice(0, at);
        rest = rest.slice(at + 1);
        return found.trim();
      }
      const { done, value } = await reader.read();
      io.signal.throwIfAborted();
      if (!done) rest += decoder.decode(value, { stream: true });
      else if (rest !== "") rest += "\n";
      else {
        throw new SvcError("argument_invalid", "Cannot go on with the setup: the input has ended", {
          help: "answer every question; `svc config set-context` needs no questions",
        });
      }
    }
  };
  return {
    async select(question, choices, initial) {
      const list = choices.map(({ label }, i) => `  ${i + 1}) ${label}\n`).join("");
      const at = choices.findIndex(({ value }) => value === initial);
      for (;;) {
        await io.stderr.write(`${question}\n${list}${at < 0 ? "" : `[${at + 1}] `}> `);
        const answer = await line() || (at < 0 ? "" : String(at + 1));
        if (answer === BACK) return BACK;
        const found = choices.find(({ value }) => value === answer) ?? choices[Number(answer) - 1];
        if (found) return found.value;
        await io.stderr.write(`answer with 1 to ${choices.length}, or ${BACK} to go back\n`);
      }
    },
    async text(question, { initial, check, secret } = {}) {
      const shown = initial && ` [${secret ? "as before" : initial}]`;
      for (;;) {
        await io.stderr.write(`${question}${shown ?? ""}: `);
        const answer = await line() || initial || "";
        if (answer === BACK) return BACK;
        const why = check?.(answer);
        if (!why) return answer;
        await io.stderr.write(`${why}\n`);
      }
    },
  };
}
