/**
 * The logins of local LLM tools, out of the files that the tools keep. Only what a request needs is read; what
 * renews a login stays where it is, since the tool alone may use it.
 */
import { join } from "node:path";
import type { Credential } from "./credential.ts";
import { homeOf, readOwnFile } from "./plain_sources.ts";
import { cannotMake, MINUTE_MS, type SourceKind, type SourceRequest } from "./source_kind.ts";

interface Tool {
  /** Its command, with which a person logs in. */
  tool: string;
  /** The variable that names its folder, and the folder below the home folder. */
  folder: { variable?: string; name: string };
  file: string;
  /** Undefined: the file has no login. `expires`: milliseconds since 1970. */
  read(
    content: Content,
  ): { values: Record<string, string | undefined>; expires?: unknown } | undefined;
}

type Content = { readonly [member: string]: unknown };

const inside = (content: Content, member: string) => Object(content[member]) as Content;
const text = (value: unknown) => typeof value === "string" && value !== "" ? value : undefined;

async function readLogin(tool: Tool, { name, around, config }: SourceRequest): Promise<Credential> {
  const { variable, name: below } = tool.folder;
  const folder = (variable && around.env[variable]) || join(homeOf(around, name), below);
  const path = config.path ?? join(folder, tool.file);
  const login = `log in with ${tool.tool} on this machine`;
  let content: Content;
  try {
    content = Object(JSON.parse(await readOwnFile(path, name)));
  } catch (error) {
    // The parser's words quote the file.
    throw error instanceof SyntaxError ? cannotMake(name, `${path} is no JSON`, login) : error;
  }
  const { values = {}, expires } = tool.read(content) ?? {};
  const found = Object.entries(values).filter((one): one is [string, string] =>
    one[1] !== undefined
  );
  if (found.length === 0) throw cannotMake(name, `${path} has no login`, login);
  const ends = typeof expires === "number" && expires > 0 ? new Date(expires) : undefined;
  if (ends && ends.getTime() <= Date.now()) {
    throw cannotMake(name, `the login in ${path} has ended`, `use ${tool.tool} once: it renews it`);
  }
  return { values: Object.fromEntries(found), ...(ends && { expiration: ends }) };
}

const source = (tool: Tool): SourceKind => ({
  help: `the login of ${tool.tool} on the caller's machine`,
  config: { path: `the tool's file; default ${tool.file} in its folder` },
  keepMs: MINUTE_MS,
  make: (request) => readLogin(tool, request),
});

export const CLAUDE = source({
  tool: "claude",
  folder: { variable: "CLAUDE_CONFIG_DIR", name: ".claude" },
  file: ".credentials.json",
  read(content) {
    const { accessToken, expiresAt } = inside(content, "claudeAiOauth");
    return { values: { token: text(accessToken) }, expires: expiresAt };
  },
});

export const CODEX = source({
  tool: "codex",
  folder: { variable: "CODEX_HOME", name: ".codex" },
  file: "auth.json",
  read(content) {
    const { access_token, account_id } = inside(content, "tokens");
    const key = text(content.OPENAI_API_KEY);
    return { values: { token: key ?? text(access_token), accountId: text(account_id) } };
  },
});

export const GEMINI = source({
  tool: "gemini",
  folder: { name: ".gemini" },
  file: "oauth_creds.json",
  read: ({ access_token, expiry_date }) => ({
    values: { token: text(access_token) },
    expires: expiry_date,
  }),
});
