/** Questions as menus on a terminal. */
import { isCancel, password, select, text } from "@clack/prompts";
import { interruption } from "../../base/terminal.ts";
import { type Ask, BACK } from "./ask.ts";

/** Turns Ctrl-C in a menu into an interrupt: the raw terminal sends no signal. */
function answered<T>(value: T): Exclude<T, symbol> {
  if (isCancel(value)) throw interruption("SIGINT");
  return value as Exclude<T, symbol>;
}

export function menuAsk(): Ask {
  return {
    async select(question, choices, initial) {
      return answered(
        await select({
          message: question,
          options: [...choices, { value: BACK, label: "‹ back" }],
          ...(initial !== undefined && { initialValue: initial }),
        }),
      );
    },
    async text(question, { initial, check, secret } = {}) {
      const validate = (answer: string | undefined) => {
        const value = (answer ?? "").trim() || initial || "";
        return value === BACK ? undefined : check?.(value);
      };
      const message = `${question} (${BACK} goes back)`;
      const answer = answered(
        secret ? await password({ message, validate }) : await text({
          message,
          ...(initial && { defaultValue: initial, placeholder: initial }),
          validate,
        }),
      );
      return (answer ?? "").trim() || initial || "";
    },
  };
}
