/** Tables for a person to read: aligned columns, no spaces at the end of a line. */

// deno-lint-ignore no-control-regex -- exactly the characters that could drive the terminal
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/g;

/** `gap`: spaces between columns. `narrowest`: characters of a column with its gap, at least. */
export function renderTable(
  headers: readonly string[],
  rows: readonly (readonly string[])[],
  { gap = 3, narrowest = 0 } = {},
): string {
  const lines = [headers, ...rows].map((row) => row.map((cell) => cell.replace(CONTROL, " ")));
  const widths = headers.map((_, i) =>
    Math.max(narrowest - gap, ...lines.map((row) => [...row[i]].length))
  );
  return lines.map((row) =>
    row.map((cell, i) =>
      i === row.length - 1 ? cell : cell + " ".repeat(widths[i] - [...cell].length)
    ).join(" ".repeat(gap)).trimEnd() + "\n"
  ).join("");
}

/** "12s", "5m", "3h", "2d": how long ago, as kubectl has it. Negative ages (clock skew) are "0s". */
export function formatAge(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 120) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 120) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours}h` : `${Math.floor(hours / 24)}d`;
}
