/** Patterns of policies and scope maps: `*` stands for any characters, everything else for itself. */

/** Takes time linear in the text's length for each star, so that a hostile claim cannot make it hang. */
export function globMatches(pattern: string, text: string): boolean {
  const [first, ...parts] = pattern.split("*");
  if (parts.length === 0) return text === pattern;
  if (!text.startsWith(first)) return false;
  const last = parts.pop()!;
  let at = first.length;
  for (const part of parts) {
    const found = text.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return text.length - last.length >= at && text.endsWith(last);
}
