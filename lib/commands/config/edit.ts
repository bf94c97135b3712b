/** `svc config set-context`, `use-context`, `delete-context`: changes of the profile file. */
import { dirname, resolve } from "node:path";
import type { Document } from "yaml";
import { SvcError } from "../../base/errors.ts";
import { nearest } from "../../base/nearest.ts";
import { editProfile, parseProfile } from "../../client/profile/file.ts";
import { absolutePaths, expand, fieldAt, isPathField } from "../../client/profile/paths.ts";
import { pemTrouble } from "../../client/profile/pem.ts";
import type { Context, Profile } from "../../client/profile/types.ts";
import { checkContext } from "../../client/profile/validate.ts";
import { overlay } from "../../client/resolve.ts";
import { readInput } from "../input.ts";
import type { Invocation } from "../command.ts";
import { FIELD_KEY } from "./options.ts";

type Values = Record<string, unknown>;

export function unknownContext(name: string, profile: Profile, attempted: string): SvcError {
  const near = nearest(name, Object.keys(profile.contexts));
  return new SvcError(
    "not_found",
    `${attempted} ${JSON.stringify(name)}: there is no context of that name` +
      (near ? `; did you mean ${near}?` : ""),
    { help: "`svc config get-contexts` lists them" },
  );
}

/** Makes the missing mappings on the way to `path`; an empty `{}` becomes one in block style. */
async function blockAt(document: Document, path: readonly string[]): Promise<void> {
  const { isMap, YAMLMap } = await import("../../client/yaml.ts");
  for (let length = 1; length <= path.length; length++) {
    const at = path.slice(0, length);
    const node = document.getIn(at, true);
    if (isMap(node)) {
      if (node.items.length === 0) node.flow = false;
    } else document.setIn(at, new YAMLMap());
  }
}

async function setField(document: Document, path: readonly string[], value: unknown) {
  await blockAt(document, path.slice(0, -1));
  const { isScalar } = await import("../../client/yaml.ts");
  const node = document.getIn(path, true);
  // Changing the value of an existing scalar keeps its comment.
  if (isScalar(node) && (value === null || typeof value !== "object")) node.value = value;
  else document.setIn(path, document.createNode(value));
}

/** `--set a.b=YAML` */
async function assignment(text: string): Promise<[path: string[], value: unknown]> {
  const equals = text.indexOf("=");
  if (equals <= 0) {
    throw new SvcError(
      "argument_invalid",
      `Cannot read --set ${JSON.stringify(text)}: expected FIELD=YAML`,
    );
  }
  const { parse } = await import("../../client/yaml.ts");
  const path = text.slice(0, equals).split(".");
  try {
    return [path, parse(text.slice(equals + 1), { logLevel: "error" })];
  } catch (cause) {
    throw new SvcError(
      "argument_invalid",
      `Cannot read --set ${path.join(".")}: its value is not YAML`,
      {
        cause: new Error((cause as Error).name),
      },
    );
  }
}

interface Imported {
  contexts: Record<string, Context>;
  /** Present where the file is a bare context. */
  bare?: Context;
}

async function importFile(file: string, invocation: Pick<Invocation, "io">): Promise<Imported> {
  const text = await readInput(file, "context", invocation.io);
  const { parse } = await import("../../client/yaml.ts");
  const source = file === "-" ? "standard input" : file;
  let document: unknown;
  if (file.endsWith(".toml")) {
    document = (await import("smol-toml")).parse(text);
  } else {
    try {
      document = parse(text, { logLevel: "error" });
    } catch (cause) {
      throw new SvcError("config_invalid", `Cannot read ${source}: it is not YAML`, {
        cause: new Error((cause as Error).name),
      });
    }
  }
  const folder = file === "-" ? Deno.cwd() : dirname(resolve(file));
  const isProfile = typeof document === "object" && document !== null && "contexts" in document;
  if (isProfile) {
    const { contexts } = await parseProfile(text, source);
    return {
      contexts: Object.fromEntries(
        Object.entries(contexts).map(([name, context]) => [name, absolutePaths(context, folder)]),
      ),
    };
  }
  return { contexts: {}, bare: absolutePaths(checkContext(document, source), folder) };
}

/** The context in the file that is imported under this name. */
function pick({ contexts, bare }: Imported, name: string, file: string): Context {
  if (bare) return bare;
  if (Object.hasOwn(contexts, name)) return contexts[name];
  const all = Object.values(contexts);
  if (all.length === 1) return all[0];
  throw new SvcError(
    "not_found",
    `Cannot take ${JSON.stringify(name)} from ${file}: it has ${
      Object.keys(contexts).join(", ") || "no context"
    }`,
    { help: "name one of these" },
  );
}

/** Relative paths on the command line start at the working folder; in the file they start at its own folder. */
function valueOf(field: readonly string[], value: unknown, token: string | undefined): unknown {
  if (field[0] === "token") return token ?? value;
  const path = value as string;
  return isPathField(field) && !path.startsWith("~") ? resolve(path) : value;
}

/** Throws `config_invalid` for a path whose file is not valid PEM. `folder`: where relative paths start. */
function checkFile(field: readonly string[], value: unknown, folder: string, home?: string): void {
  const pem = fieldAt(field)?.pem;
  if (pem === undefined || typeof value !== "string") return;
  const why = pemTrouble(expand(value, folder, home), pem);
  if (why === undefined) return;
  throw new SvcError("config_invalid", `Cannot use ${value} as ${field.join(".")}: ${why}`, {
    help: "name a PEM file that is there",
  });
}

export async function setContext(
  path: string,
  name: string,
  invocation: Pick<Invocation, "io" | "values" | "sources" | "env">,
): Promise<{ outcome: "created" | "changed"; context: Context }> {
  const values = invocation.values as unknown as Values;
  const file = values.fromFile as string | undefined;
  const imported = file === undefined
    ? undefined
    : pick(await importFile(file, invocation), name, file);
  const assignments = await Promise.all(((values.set as string[]) ?? []).map(assignment));
  const fields = Object.entries(values).filter(([key, value]) =>
    key.startsWith(FIELD_KEY) && value !== undefined
  );
  const token = values[`${FIELD_KEY}token`] === "-"
    ? (await new Response(invocation.io.stdin.readable as BodyInit).text()).trim()
    : undefined;
  const home = invocation.env.HOME ?? invocation.env.USERPROFILE;
  for (const [key, value] of fields) {
    checkFile(key.slice(FIELD_KEY.length).split("."), value, Deno.cwd(), home);
  }
  for (const [field, value] of assignments) checkFile(field, value, dirname(resolve(path)), home);
  let created = false;
  const { contexts } = await editProfile(path, async (document, profile) => {
    const base = ["contexts", name];
    created = !Object.hasOwn(profile.contexts, name);
    if (imported) {
      const merged = values.merge && !created
        ? overlay(profile.contexts[name], imported).context
        : imported;
      await blockAt(document, ["contexts"]);
      document.setIn(base, document.createNode(merged));
    }
    await blockAt(document, base);
    for (const field of (values.unset as string[]) ?? []) {
      document.deleteIn([...base, ...field.split(".")]);
    }
    if (invocation.sources?.server === "--server") {
      await setField(document, [...base, "server"], values.server);
    }
    for (const [key, value] of fields) {
      const field = key.slice(FIELD_KEY.length).split(".");
      await setField(document, [...base, ...field], valueOf(field, value, token));
    }
    for (const [field, value] of assignments) await setField(document, [...base, ...field], value);
    if (values.current || Object.keys(profile.contexts).length === 0 && created) {
      document.setIn(["current-context"], name);
    }
  });
  return { outcome: created ? "created" : "changed", context: contexts[name] };
}

export async function useContext(path: string, name: string): Promise<void> {
  await editProfile(path, async (document, profile) => {
    if (!Object.hasOwn(profile.contexts, name)) {
      throw unknownContext(name, profile, "Cannot use context");
    }
    await setField(document, ["current-context"], name);
  });
}

/** True where the deleted context was the current one; then none is. */
export async function deleteContext(path: string, name: string): Promise<boolean> {
  let selected = false;
  await editProfile(path, (document, profile) => {
    if (!Object.hasOwn(profile.contexts, name)) {
      throw unknownContext(name, profile, "Cannot delete context");
    }
    document.deleteIn(["contexts", name]);
    selected = profile["current-context"] === name;
    if (selected) document.deleteIn(["current-context"]);
  });
  return selected;
}
