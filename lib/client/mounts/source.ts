/** What `--mount` says: SOURCE:TARGET[:ro][,cache][,async]. */
import { targetFault } from "../../api/caller_mounts.ts";
import { SvcError } from "../../base/errors.ts";

export interface MountSource {
  /** Path on this machine, as it was given. */
  source: string;
  target: string;
  readOnly: boolean;
  /** The files do not change: the server may keep them. Implies `readOnly`. */
  cache?: true;
  /** With `cache`: under which the server keeps them (cache_names.ts). */
  cacheName?: string;
  /** Writes are answered before they are here. */
  async?: true;
}

function unreadable(text: string, why: string): SvcError {
  return new SvcError("argument_invalid", `Cannot read --mount ${JSON.stringify(text)}: ${why}`, {
    help: "write --mount SOURCE:TARGET[:ro][,cache] or --mount SOURCE:TARGET,async",
  });
}

/** Words after a comma: those that change how a mount works. */
const WORDS = ["cache", "async"];

/** Throws `argument_invalid`. */
export function parseMountSource(text: string): MountSource {
  const [places, ...words] = text.split(/,(?=[a-z]+(?:,|$))/);
  const wrong = words.find((word) => !WORDS.includes(word));
  if (wrong !== undefined) throw unreadable(text, `there is no option ${JSON.stringify(wrong)}`);
  const [cache, async] = WORDS.map((word) => words.includes(word));
  const readOnly = cache || /:ro$/.test(places);
  if (async && readOnly) {
    throw unreadable(text, "with ,async a mount is writable, so neither :ro nor ,cache");
  }
  const both = places.replace(/:(ro|rw)$/, "");
  // The target is absolute in the container; a source may have colons, as Windows' drives do.
  const at = both.lastIndexOf(":/");
  if (at <= 0) throw unreadable(text, "expected a source, a colon, and an absolute target");
  const source = both.slice(0, at);
  const target = both.slice(at + 1).replace(/(?<=.)\/+$/, "");
  const fault = targetFault(target);
  if (fault) throw unreadable(text, fault);
  return { source, target, readOnly, ...(cache && { cache }), ...(async && { async }) };
}
