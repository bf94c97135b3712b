/**
 * Makes JSON Schemas (draft 2020-12) from the declarations of the API's types, as `deno doc` reports them. An
 * unknown form of type is an error: no schema may be weaker than its type.
 */
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { deploySpecJsonSchema } from "./spec/json_schema.ts";
import { CATALOGUE } from "../../lib/base/errors.ts";
import { ROOT } from "../build/bundle.ts";

export type Schema = Record<string, unknown>;

interface Type {
  kind: string;
  repr?: string;
  value?: unknown;
}

interface Property {
  name: string;
  optional?: boolean;
  tsType: Type;
  jsDoc?: { doc?: string };
}

interface Declaration {
  kind: string;
  def: { properties?: Property[]; extends?: Type[]; tsType?: Type };
  jsDoc?: { doc?: string };
}

interface Reference {
  typeName: string;
  typeParams?: Type[];
  resolution?: { kind: string; specifier?: string; name?: string };
}

const FOLDER = join(ROOT, "lib/api");
const TABLE = pathToFileURL(join(FOLDER, "endpoints.ts")).href;

/** Schemas that do not follow from a declaration, by file and name. */
const KNOWN: Record<string, () => Schema> = {
  // Not all regular expression dialects know the class.
  "lib/api/deploy_spec.ts DeploySpec": () =>
    JSON.parse(
      JSON.stringify(deploySpecJsonSchema())
        .replaceAll("\\\\P{Cc}", "[^\\\\u0000-\\\\u001f\\\\u007f-\\\\u009f]"),
    ),
  "lib/base/errors.ts ErrorCode": () => ({ type: "string", enum: Object.keys(CATALOGUE) }),
};

const KEYWORDS: Record<string, Schema> = {
  string: { type: "string" },
  number: { type: "number" },
  boolean: { type: "boolean" },
  unknown: {},
  null: { type: "null" },
};

async function declarations(): Promise<Map<string, Declaration>> {
  const files = (await Array.fromAsync(Deno.readDir(FOLDER)))
    .map(({ name }) => join(FOLDER, name))
    .filter((path) => path.endsWith(".ts") && !/_test\.ts$|testing\.ts$/.test(path));
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["doc", "--json", ...files],
    env: { NO_COLOR: "1" },
  }).output();
  if (!success) throw new Error(`Cannot read the types: ${new TextDecoder().decode(stderr)}`);
  const { nodes } = JSON.parse(new TextDecoder().decode(stdout)) as {
    nodes: Record<string, { symbols: { name: string; declarations: Declaration[] }[] }>;
  };
  const all = new Map<string, Declaration>();
  for (const [file, { symbols }] of Object.entries(nodes)) {
    for (const { name, declarations: [first] } of symbols) all.set(`${file} ${name}`, first);
  }
  return all;
}

class Generator {
  readonly schemas: Record<string, Schema> = {};
  /** "file name" of a declaration → the schema's name. */
  readonly #names = new Map<string, string>();

  constructor(readonly all: ReadonlyMap<string, Declaration>) {}

  /** Makes a schema for each name in the table's `Schemas`, and for the types that these refer to. */
  async run(): Promise<void> {
    const roots = this.all.get(`${TABLE} Schemas`)!.def.properties!;
    const isOurs = ({ kind, value }: Type) =>
      kind === "typeRef" && (value as Reference).resolution !== undefined;
    for (const { name, tsType } of roots) {
      if (isOurs(tsType)) this.#names.set(placeOf(tsType, TABLE), name);
    }
    for (const { name, tsType } of roots) {
      if (isOurs(tsType)) await this.#named(placeOf(tsType, TABLE));
      else this.schemas[name] = await this.#schema(tsType, TABLE);
    }
  }

  async #named(place: string): Promise<Schema> {
    const known = KNOWN[place.replace(`${pathToFileURL(ROOT).href}/`, "")];
    const name = this.#names.get(place) ?? place.split(" ")[1];
    const reference = { $ref: `#/components/schemas/${name}` };
    if (this.schemas[name]) {
      if (this.#names.get(place) === name) return reference;
      throw new Error(`Two types are called ${name}: give ${place} a name of its own in Schemas`);
    }
    this.#names.set(place, name);
    this.schemas[name] = {};
    const declared = this.all.get(place);
    if (!known && !declared) throw new Error(`There is no declaration of ${place}`);
    const { doc } = declared?.jsDoc ?? {};
    Object.assign(
      this.schemas[name],
      doc && { description: oneLine(doc) },
      known ? known() : await this.#declared(declared!, place.split(" ")[0]),
    );
    return reference;
  }

  async #declared({ def }: Declaration, file: string): Promise<Schema> {
    if (def.tsType) return await this.#schema(def.tsType, file);
    const own = await this.#object(def.properties ?? [], file);
    const parents = await Promise.all((def.extends ?? []).map((type) => this.#schema(type, file)));
    return parents.length > 0 ? { allOf: [...parents, own] } : own;
  }

  async #object(properties: readonly Property[], file: string): Promise<Schema> {
    const there = properties.filter(({ tsType }) => tsType.repr !== "undefined");
    const members: Record<string, Schema> = {};
    for (const { name, tsType, jsDoc } of there) {
      const schema = await this.#schema(tsType, file);
      members[name] = jsDoc?.doc ? { ...schema, description: oneLine(jsDoc.doc) } : schema;
    }
    const required = there.filter(({ optional }) => !optional).map(({ name }) => name);
    return { type: "object", properties: members, ...(required.length > 0 && { required }) };
  }

  async #schema(type: Type, file: string): Promise<Schema> {
    const each = (types: unknown) =>
      Promise.all((types as Type[]).map((one) => this.#schema(one, file)));
    switch (type.kind) {
      case "keyword":
        if (KEYWORDS[type.repr!]) return KEYWORDS[type.repr!];
        break;
      case "literal": {
        const literal = type.value as { kind: string; [value: string]: unknown };
        return { const: literal[literal.kind] };
      }
      case "parenthesized":
        return await this.#schema(type.value as Type, file);
      case "array":
        return { type: "array", items: await this.#schema(type.value as Type, file) };
      case "intersection":
        return { allOf: await each(type.value) };
      case "union":
        return union(await each(type.value));
      case "typeLiteral":
        return await this.#object((type.value as { properties: Property[] }).properties, file);
      case "indexedAccess": {
        // `typeof WORDS[number]`: the element type of the list.
        const { objType } = type.value as { objType: Type };
        if (objType.kind === "typeQuery") return { enum: [...(await import(file))[objType.repr!]] };
        break;
      }
      case "typeRef":
        return await this.#reference(type, file);
    }
    throw new Error(`Cannot say as a schema: ${type.kind} ${type.repr ?? ""} in ${file}`);
  }

  async #reference(type: Type, file: string): Promise<Schema> {
    const { typeName, typeParams = [] } = type.value as Reference;
    const inside = () => Promise.all(typeParams.map((one) => this.#schema(one, file)));
    if (typeName === "Uint8Array") return { type: "string", format: "binary" };
    if (typeName === "Record") {
      return { type: "object", additionalProperties: (await inside())[1] };
    }
    if (typeName === "Exclude") {
      const [from, without] = (await inside()).map((schema) => this.#words(schema));
      return { enum: from.filter((word) => !without.includes(word)) };
    }
    return await this.#named(placeOf(type, file));
  }

  #words(schema: Schema): unknown[] {
    const name = (schema.$ref as string | undefined)?.split("/").at(-1);
    const { enum: words, const: word } = name ? this.schemas[name] : schema;
    return (words as unknown[] | undefined) ?? [word];
  }
}

/** Literals are joined into one enum. */
function union(schemas: Schema[]): Schema {
  const words = schemas.every((schema) => "const" in schema);
  return words ? { enum: schemas.map((schema) => schema.const) } : { anyOf: schemas };
}

/** "file name" of the declaration that a reference leads to. */
function placeOf(type: Type, file: string): string {
  const { typeName, resolution } = type.value as Reference;
  return resolution?.kind === "import"
    ? `${new URL(resolution.specifier!, file).href} ${resolution.name}`
    : `${file} ${typeName}`;
}

const oneLine = (text: string) => text.trim().replaceAll(/\s*\n\s*/g, " ");

/** Name → schema; references have the form `#/components/schemas/NAME`. */
export async function wireSchemas(): Promise<Record<string, Schema>> {
  const generator = new Generator(await declarations());
  await generator.run();
  return generator.schemas;
}
