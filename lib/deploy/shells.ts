/** The shells to try in a workload for a user who names no command (SPEC.md "Context", `shells`). */
import { Issue, shellWords } from "../api/deploy_spec_shorthand.ts";
import { SvcError } from "../base/errors.ts";

/** The shells to try last, the most comfortable first. */
const USUAL = ["bash", "ash", "sh"];

/**
 * Command lines, best first: the workload's own, the caller's, the usual ones, without duplicates. Throws
 * `argument_invalid` for an entry that is not a command line.
 */
export function shellCandidates(
  own: readonly string[] = [],
  asked: readonly string[] = [],
): string[][] {
  const found = new Map<string, string[]>();
  for (const text of [...own, ...asked, ...USUAL]) {
    const words = splitShell(text);
    const key = JSON.stringify(words);
    if (words.length > 0 && !found.has(key)) found.set(key, words);
  }
  return [...found.values()];
}

function splitShell(text: string): string[] {
  try {
    return shellWords(text);
  } catch (error) {
    if (!(error instanceof Issue)) throw error;
    throw new SvcError(
      "argument_invalid",
      `Cannot use shell ${JSON.stringify(text)}: ${error.message}`,
      { help: "correct the entry of `shells` in the deployment spec or the connection profile" },
    );
  }
}
