/** Texts with `{placeholders}`. */

/** The placeholders of a template that are none of these. */
export function unknownPlaceholders(template: string, names: readonly string[]): string[] {
  return [...template.matchAll(/\{([^{}]*)\}/g)].map((match) => match[1])
    .filter((name) => !names.includes(name));
}

/** Puts in the values; what is no placeholder of theirs stays. */
export function fillTemplate(template: string, values: Readonly<Record<string, string>>): string {
  return template.replace(
    /\{([^{}]*)\}/g,
    (whole, name) => Object.hasOwn(values, name) ? values[name] : whole,
  );
}
