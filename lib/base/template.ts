/** Texts with `{placeholders}`. */

/** The placeholders of a template that are not among `names`. */
export function unknownPlaceholders(template: string, names: readonly string[]): string[] {
  return [...template.matchAll(/\{([^{}]*)\}/g)].map((match) => match[1])
    .filter((name) => !names.includes(name));
}

/** Inserts the values; other placeholders are left unchanged. */
export function fillTemplate(template: string, values: Readonly<Record<string, string>>): string {
  return template.replace(
    /\{([^{}]*)\}/g,
    (whole, name) => Object.hasOwn(values, name) ? values[name] : whole,
  );
}
