/** Markdown out of tables. */

/** Text that stands in a cell as it is. */
export function cell(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll("<", "&lt;").replaceAll(/\s*\n\s*/g, " ");
}

export const code = (text: string): string => `\`${text.replaceAll("|", "\\|")}\``;

/** Cells are markdown already; an empty one is a dash. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map((c) => c || "–").join(" | ")} |\n`;
  return line(head) + line(head.map(() => "---")) + rows.map(line).join("");
}
