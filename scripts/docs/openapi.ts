/** docs/reference/openapi.json: the management API as OpenAPI 3.1, from the route table and the wire types. */
import type { Content, Parameter } from "../../lib/api/endpoints.ts";
import type { Route } from "../../lib/server/route.ts";
import { routes } from "./http_api.ts";
import { type Schema, wireSchemas } from "./wire_schemas.ts";
import config from "../../deno.json" with { type: "json" };

const PARAMETERS: Record<Exclude<Parameter, readonly string[]>, Schema> = {
  text: { type: "string" },
  bool: { type: "boolean" },
  count: { type: "integer", minimum: 0 },
  time: { type: "string", description: "RFC 3339, or seconds since 1970." },
  texts: { type: "array", items: { type: "string" } },
  pairs: { type: "array", items: { type: "string", pattern: "^[^=]+=" } },
};

const PHRASES: Record<string, string> = {
  101: "A WebSocket.",
  201: "It is made.",
  202: "It is under way.",
  204: "It is done; there is nothing to say.",
  400: "It is refused.",
};

/** Text is markdown; a schema's name stands for the schema. */
function contentOf(content: Content): Schema {
  const media = Object.entries(content).map(([type, name]) => {
    const schema = name === "Bytes" ? {} : { $ref: `#/components/schemas/${name}` };
    return [type, { schema }];
  });
  return media.length > 0 ? { content: Object.fromEntries(media) } : {};
}

function parametersOf({ path, query = {} }: Route): Schema[] {
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    ...{ name, in: "path", required: true, schema: { type: "string" } },
  }));
  const inQuery = Object.entries(query).map(([name, kind]) => ({
    ...{ name, in: "query" },
    schema: typeof kind === "string" ? PARAMETERS[kind] : { enum: kind },
  }));
  return [...inPath, ...inQuery];
}

/** "getDeploymentsByNameLogs". */
function idOf({ method, path }: Route): string {
  const words = path.replace(/^\/\.svc\/v1/, "").replaceAll(/\{(\w+)\}/g, "by $1")
    .match(/[A-Za-z]+/g)!;
  return method.toLowerCase() + words.map((word) => word[0].toUpperCase() + word.slice(1)).join("");
}

function operation(route: Route): Schema {
  const parameters = parametersOf(route);
  const answers = Object.entries(route.answers ?? {}).map(([status, content]) => [status, {
    description: PHRASES[status] ?? "It is as asked.",
    ...contentOf(content),
  }]);
  return {
    operationId: idOf(route),
    description: route.help,
    ...(route.open ? { security: [] } : { "x-svc-action": route.action }),
    ...(parameters.length > 0 && { parameters }),
    ...(route.body && { requestBody: { required: true, ...contentOf(route.body) } }),
    responses: {
      ...Object.fromEntries(answers),
      default: { $ref: "#/components/responses/Problem" },
    },
  };
}

export async function openApi(): Promise<Schema> {
  const { management, auth } = routes();
  const paths: Record<string, Record<string, Schema>> = {};
  for (const route of [...management, ...auth]) {
    (paths[route.path] ??= {})[route.method.toLowerCase()] = operation(route);
  }
  const { Bytes: _bytes, ...schemas } = await wireSchemas();
  return {
    openapi: "3.1.0",
    info: {
      title: "svc",
      version: config.version,
      description:
        "The management API. A credential is asked for once authentication is configured; " +
        "`x-svc-action` is the action that a policy then has to grant, `any` that it has to grant " +
        "something. A failure after a streamed 200 has begun is the stream's last event.",
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: "/" }],
    security: [{ bearer: [] }, { certificate: [] }],
    paths,
    components: {
      securitySchemes: {
        bearer: { type: "http", scheme: "bearer" },
        certificate: { type: "mutualTLS" },
      },
      responses: {
        Problem: {
          description: "It failed (RFC 9457).",
          content: {
            "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } },
          },
        },
      },
      schemas,
    },
  };
}

export const openApiPage = async (): Promise<string> =>
  JSON.stringify(await openApi(), undefined, 1) + "\n";
