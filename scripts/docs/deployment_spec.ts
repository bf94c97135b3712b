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

/** How a backend treats a field; a section's reason is not repeated for its fields. */
function doneBy(rules: FieldRules, path: string, field: JsonSchema): string {
  const rule = ruleAt(rules, path);
  if (rule === undefined) {
    const list = sectionOf(field) === field.items ? "[]" : "";
    const inside = [...fieldsOf(sectionOf(field)!, `${path}${list}.`)]
      .map(([inner]) => ruleAt(rules, inner));
    // For a nested section its fields decide.
    const all = inside.every((one) => one === undefined || one === "honoured");
    return all ? "yes" : link("see there", path);
  }
  if (rule === "honoured") return "yes";
  if ("only" in rule) return cell(`${sectionOf(field) ? "" : "only "}${rule.only}`);
  const above = path.includes(".") && ruleAt(rules, path.replace(/\.[^.]*$/, ""));
  return above === rule ? "no" : cell(`no: ${rule.told}`);
}

type Backends = readonly (readonly [name: string, rules: FieldRules])[];

function rows(section: JsonSchema, above: string, backends: Backends): string {
  const head = ["field", "type", "default", "meaning", "example"];
  return table(
    [...head, ...backends.map(([name]) => name)],
    Object.entries(section.properties!).map(([name, field]) => {
      const path = `${above}${name}`;
      return [
        code(name),
        typeOf(field, path),
        defaultOf(section, name, field),
        cell(field.description!),
        exampleOf(name, field),
        ...backends.map(([, rules]) => doneBy(rules, path, field)),
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
    "The last columns are the deploy backends of this build, and say whether they do it. What a " +
    "backend does not do is told when you deploy, and stands in the deployment's `warnings` (`svc " +
    "status`); with `strict: true` it refuses the deployment instead.\n\n" +
    "## Fields\n\n" + rows(schema, "", backends) + sections(schema, "", backends);
}
