/** docs/reference/deployment-spec.md, from the schema, the fields' meanings and each backend's list. */
import { stringify } from "yaml";
import { DEPLOY_BACKENDS } from "../../backends/deploy/mod.ts";
import { deploySpecJsonSchema, fieldsOf, type JsonSchema, sectionOf } from "./spec/json_schema.ts";
import { type FieldRules, ruleAt } from "../../lib/deploy/fields.ts";
import { cell, code, table } from "./markdown.ts";

const EXAMPLE = new URL("../../examples/app.yaml", import.meta.url);

/** To the heading of a section: "updateConfig" has the anchor "updateconfig". */
const link = (text: string, path: string) =>
  `[${text}](#${path.toLowerCase().replaceAll(/[^\w-]/g, "")})`;

function typeOf(field: JsonSchema, path: string): string {
  if (field.anyOf) return field.anyOf.map((one) => typeOf(one, path)).join(" or ");
  if (sectionOf(field)) return link(field.items ? "list of fields" : "fields", path);
  if (field.title) return field.title;
  if (field.enum) return field.enum.map((value) => code(String(value))).join(", ");
  if (field.type === "array") return `list of ${LISTS[typeOf(field.items!, path)]}`;
  if (field.type === "integer" && field.maximum! <= 65535) {
    return `${field.minimum}..${field.maximum}`;
  }
  return TYPES[field.type as string];
}

const TYPES: Record<string, string> = {
  string: "text",
  boolean: "true or false",
  integer: "whole number",
  object: "map",
};
const LISTS: Record<string, string> = {
  text: "texts",
  path: "paths",
  "IP address": "IP addresses",
  "1..65535": "numbers (1..65535)",
};

function defaultOf({ required }: JsonSchema, name: string, field: JsonSchema): string {
  if (required?.includes(name)) return "**required**";
  const value = field.default;
  // An empty list or map is shown as a dash.
  return value === undefined || typeof value === "object" ? "" : code(String(value));
}

function exampleOf(name: string, { examples }: JsonSchema): string {
  const flow = { collectionStyle: "flow", flowCollectionPadding: false, lineWidth: 0 } as const;
  return code(`${name}: ${stringify(examples![0], flow).trim()}`);
}

type Backends = readonly (readonly [name: string, rules: FieldRules])[];

/** What a backend does with a field: all that it says, a part, or nothing; and the reason. */
type Done = readonly [mark: "yes" | "in part" | "no", why?: string];

function doneBy(rules: FieldRules, path: string, field: JsonSchema): Done {
  const rule = ruleAt(rules, path);
  if (rule === "honoured") return ["yes"];
  if (rule && "told" in rule) return ["no", rule.told];
  if (rule) return ["in part", `${sectionOf(field) ? "" : "only "}${rule.only}`];
  const list = sectionOf(field) === field.items ? "[]" : "";
  const inside = [...fieldsOf(sectionOf(field)!, `${path}${list}.`)]
    .map(([inner, schema]) => doneBy(rules, inner, schema)[0]);
  return [inside.every((mark) => mark === inside[0]) ? inside[0] : "in part"];
}

/** The backends that do it, one that does a part of it with a star. */
function whoDoes(path: string, field: JsonSchema, backends: Backends): string {
  const marks = backends.map(([name, rules]) => [name, doneBy(rules, path, field)[0]] as const);
  const doing = marks.filter(([, mark]) => mark !== "no");
  const star = (mark: string) => mark === "in part" ? "\\*" : "";
  const [[, first]] = marks;
  if (marks.every(([, mark]) => mark === first)) {
    return first === "no" ? "none" : `all${star(first)}`;
  }
  return doing.map(([name, mark]) => `${name}${star(mark)}`).join(", ");
}

function rows(section: JsonSchema, above: string, backends: Backends): string {
  return table(
    ["field", "type", "default", "meaning", "example", "backends"],
    Object.entries(section.properties!).map(([name, field]) => {
      const path = `${above}${name}`;
      return [
        code(name),
        typeOf(field, path),
        defaultOf(section, name, field),
        cell(field.description!),
        exampleOf(name, field),
        whoDoes(path, field, backends),
      ];
    }),
  );
}

/** A heading and a table for each nested section, at any depth. */
function sections(section: JsonSchema, above: string, backends: Backends): string {
  return Object.entries(section.properties!).map(([name, field]) => {
    const inner = sectionOf(field);
    if (!inner) return "";
    const path = `${above}${name}`;
    const inside = `${path}${inner === field.items ? "[]" : ""}.`;
    return `\n## ${path}\n\n${cell(field.description!)}\n\n${rows(inner, inside, backends)}` +
      sections(inner, inside, backends);
  }).join("");
}

/** A row for each field, a column for each backend, and the reasons below, numbered. */
function whatEachDoes(schema: JsonSchema, backends: Backends): string {
  const reasons: string[] = [];
  const numberOf = (why: string) => {
    if (!reasons.includes(why)) reasons.push(why);
    return reasons.indexOf(why) + 1;
  };
  const shown = [...fieldsOf(schema)].filter(([path, field]) => {
    const of = backends.map(([, rules]) => ruleAt(rules, path));
    const above = path.includes(".") ? path.replace(/\.[^.]*$/, "") : undefined;
    // A section is what its fields are, or its fields are what it is.
    return above && backends.every(([, rules], at) => ruleAt(rules, above) === of[at])
      ? false
      : !sectionOf(field) || of.some((rule) => rule !== undefined);
  });
  const made = shown.map(([path, field]) => [
    code(path),
    ...backends.map(([, rules]) => {
      const [mark, why] = doneBy(rules, path, field);
      return why === undefined ? mark : `${mark} (${numberOf(why)})`;
    }),
  ]);
  return table(["field", ...backends.map(([name]) => name)], made) + "\n" +
    reasons.map((why, at) => `${at + 1}. ${cell(why)}\n`).join("");
}

export async function deploymentSpecPage(): Promise<string> {
  const backends: [string, FieldRules][] = [];
  for (const [name, { fields }] of Object.entries(DEPLOY_BACKENDS)) {
    if (fields) backends.push([name, await fields()]);
  }
  const schema = deploySpecJsonSchema();
  return "# Deployment spec\n\n" +
    "A deployment spec says what is to run. It is YAML or JSON, and `svc deploy -f app.yaml` makes it " +
    "so. A complete one:\n\n" +
    "```yaml\n" + await Deno.readTextFile(EXAMPLE) + "```\n\n" +
    "Deploy it again after a change, and the server replaces what runs; without a change nothing " +
    "happens. `svc ps`, `svc status web` and `svc logs web` show what became of it.\n\n" +
    "Only `name` and `image` are required. A field that is not on this page is an error, which names " +
    "the nearest field that is.\n\n" +
    "| word | what it stands for |\n| --- | --- |\n" +
    "| duration | a Go duration: `300ms`, `10s`, `1m30s` |\n" +
    "| size | bytes, or a number with a unit: `64Mi`, `10Gi`, `500M` |\n" +
    "| processors | a number, or thousandths: `0.5`, `2`, `500m` |\n" +
    "| list of texts | `[a, b]`, or one text alone |\n" +
    "| map | `{NAME: value}`, or a list of `NAME=value` |\n" +
    "| path | an absolute path |\n\n" +
    "The last column names the deploy backends of this build that do it; a star: in part. [What each " +
    "backend does](#what-each-backend-does) has the reasons. What a backend does not do is told when " +
    "you deploy, and stands in the deployment's `warnings` (`svc status`); with `strict: true` it " +
    "refuses the deployment instead. A spec applies on every backend, and nothing of it is lost: `svc " +
    "status NAME -o yaml` gives it back as it was applied.\n\n" +
    "## Fields\n\n" + rows(schema, "", backends) + sections(schema, "", backends) +
    "\n## What each backend does\n\nThe numbers are those of the reasons below.\n\n" +
    whatEachDoes(schema, backends);
}
