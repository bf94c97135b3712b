/** SPEC "Authentication". */
import { invalid } from "../checks.ts";
import type { AnyOption } from "../load.ts";

const section = "Authentication";

/** What an `Authorization` field can carry. */
function visible(value: string, source: string): string {
  if (/^[!-~]{1,8192}$/.test(value)) return value;
  throw invalid(
    source,
    "a token has visible ASCII characters only, without spaces, and at most 8192 of them",
    "generate one, for example with `openssl rand -hex 32`",
  );
}

export const AUTH = [
  {
    key: "authToken",
    kind: "string",
    env: ["SVC_AUTH_TOKEN"],
    section,
    help:
      "Static bearer token accepted as a credential, with every scope; its identity is `token`.",
    check: visible,
  },
  {
    key: "apiPolicy",
    kind: "string",
    env: ["SVC_API_POLICY"],
    section,
    help: "Which identity may do what: a file of YAML or JSON, or the document itself where the " +
      "value begins with { or has several lines. The page Authentication has its format.",
  },
  {
    key: "registryAnonymousPull",
    kind: "bool",
    env: ["SVC_REGISTRY_ANONYMOUS_PULL"],
    default: false,
    section,
    help:
      "Allows registry pulls without a credential when authentication is configured. A policy " +
      "rule that names pull wins over it.",
  },
] as const satisfies readonly AnyOption[];
