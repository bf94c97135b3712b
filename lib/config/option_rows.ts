/** The usual rows of option tables: a flag, a value, and a list whose flag gives one item each time. */

/** Makes rows of one section of the help. `short` is the one-letter form; `placeholder` stands for the value in the help. */
export const optionRows = <const S extends string>(section: S) => {
  const named = <const K extends string>(key: K, flag: string, help: string, short?: string) =>
    ({ key, flag, ...(short && { short }), help, section }) as const;
  return {
    flag: <const K extends string>(key: K, name: string, help: string, short?: string) =>
      ({ ...named(key, name, help, short), kind: "bool" }) as const,

    text: <const K extends string>(
      ...[key, name, placeholder, help, short]: [K, string, string, string, string?]
    ) => ({ ...named(key, name, help, short), kind: "string", placeholder }) as const,

    list: <const K extends string>(
      ...[key, name, placeholder, help, short]: [K, string, string, string, string?]
    ) =>
      ({
        ...named(key, name, `${help} May be repeated.`, short),
        ...{ kind: "list", verbatim: true, placeholder } as const,
      }) as const,
  };
};
