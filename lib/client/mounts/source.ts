/** What `--mount` says: SOURCE:TARGET[:ro][,cache][,async]. */
import { targetFault } from "../../api/caller_mounts.ts";
import { SvcError } from "../../base/errors.ts";

export interface MountSource {
  /** Path on this machine, as it was given. */
  source: string;
  target: string;
  readOnly: boolean;
}

function unreadable(text: string, why: string): SvcError {
  return new SvcError("argument_invalid", `Cannot read --mount ${JSON.stringify(text)}: ${why}`, {
    help: "write --mount SOURCE:TARGET or --mount SOURCE:TARGET:ro",
  });
}

/** Words after a comma: those that change how a mount works. */
const LATER: Record<string, string> = {
  cache: "a mount that the server caches",
  async: "a mount that is written back later",
};

/** Throws `argument_invalid`; `unsupported` for a way of mounting that this version does not know yet. */
export function parseMountSource(text: string): MountSource {
  const [places, ...words] = text.split(/,(?=[a-z]+(?:,|$))/);
  for (const word of words) {
    const what = LATER[word];
    if (!what) throw unreadable(text, `there is no option ${JSON.stringify(word)}`);
    throw new SvcError(
      "unsupported",
      `Cannot mount with ,${word}: ${what} is not in this version`,
      {
        help: `leave out ,${word}: the mount then reads and writes in place`,
      },
    );
  }
  const readOnly = /:ro$/.test(places);
  const both = places.replace(/:(ro|rw)$/, "");
  // The target is absolute in the container; a source may have colons, as Windows' drives do.
  const at = both.lastIndexOf(":/");
  if (at <= 0) throw unreadable(text, "expected a source, a colon, and an absolute target");
  const source = both.slice(0, at);
  const target = both.slice(at + 1).replace(/(?<=.)\/+$/, "");
  const fault = targetFault(target);
  if (fault) throw unreadable(text, fault);
  return { source, target, readOnly };
}
