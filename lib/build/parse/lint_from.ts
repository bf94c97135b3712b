/** Checks of FROM: variables, platform, and the result with the global ARGs' defaults. */
import { SvcError } from "../../base/errors.ts";
import { suggestion } from "../../base/nearest.ts";
import { parsePlatform } from "../../oci/platform.ts";
import { parseReference } from "../../oci/reference.ts";
import type { Stage } from "./ast.ts";
import { expand, scopeOf, variablesOf } from "./expand.ts";
import type { LintInput } from "./lint_input.ts";
import type { Linter } from "./lint_rules.ts";
import { PLATFORM_ARGS, PROXY_ARGS } from "./predefined.ts";

export function lintFrom({ directives, globalArgs, stages }: LintInput, linter: Linter): void {
  const { escape } = directives;
  const declared = globalArgs.flatMap(({ args }) => args.map(({ key }) => key.raw));
  const known = new Set<string>([...declared, ...PLATFORM_ARGS, ...PROXY_ARGS]);
  const defaults = attempt(() => {
    const values = new Map<string, string>(PLATFORM_ARGS.map((name) => [name, "linux"]));
    const scope = scopeOf(values);
    for (const { args } of globalArgs) {
      for (const { key, value } of args) {
        const name = expand(key, scope, { escape }).value;
        if (value !== undefined) values.set(name, expand(value, scope, { escape }).value);
      }
    }
    return scope;
  });
  for (const stage of stages) {
    const { from, line } = stage;
    for (const word of [from.image, from.platform]) {
      if (word === undefined) continue;
      // With a default an undeclared name does no harm, but no --build-arg can set it.
      for (const name of variablesOf(word, { escape })) {
        if (known.has(name)) continue;
        linter.warn(
          "UndefinedArgInFrom",
          line,
          `FROM uses ${name}, which no ARG before the first FROM declares${
            suggestion(name, known)
          }`,
        );
      }
    }
    lintPlatform(stage, linter);
    const image = defaults && attempt(() => expand(from.image, defaults, { escape }).value);
    if (image === undefined || !from.image.raw.includes("$")) continue;
    if (image !== "" && attempt(() => parseReference(image)) !== undefined) continue;
    linter.warn(
      "InvalidDefaultArgInFrom",
      line,
      `The defaults of the ARGs make ${from.image.raw} an ${
        image === "" ? "empty" : "invalid"
      } image name`,
    );
  }
}

function lintPlatform({ from, line, name = "" }: Stage, linter: Linter): void {
  const platform = from.platform?.raw;
  if (platform === undefined) return;
  if (/^\$(TARGETPLATFORM|\{TARGETPLATFORM\})$/.test(platform)) {
    linter.warn(
      "RedundantTargetPlatform",
      line,
      `--platform=${platform} is what FROM does without the flag`,
    );
  }
  if (platform.includes("$")) return;
  const parsed = attempt(() => parsePlatform(platform));
  if (parsed === undefined) return;
  // A stage whose name contains the platform uses it on purpose.
  if (name.includes(parsed.os) || name.includes(parsed.architecture)) return;
  linter.warn(
    "FromPlatformFlagConstDisallowed",
    line,
    `--platform=${platform} is a constant; the builder's --platform cannot change it`,
  );
}

/** The value, or undefined where the text is invalid. */
function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof SvcError) return undefined;
    throw error;
  }
}
