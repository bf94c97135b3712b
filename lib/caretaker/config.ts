/** The document of SVC_CARETAKER_CONFIG: what one caretaker does. */
import { SvcError } from "../base/errors.ts";
import { suggestion } from "../base/nearest.ts";

/** The version of the document that this build reads and writes. */
export const CONFIG_VERSION = 1;

export interface CaretakerConfig {
  version: typeof CONFIG_VERSION;
  /** How the server is reached, and as which instance: for roles that speak to it. */
  server?: { url: string; instance: string };
  /** Socket on which `svc caretaker check` is answered. Absent: one in the folder for temporary files. */
  status?: string;
  /** Settings by role. */
  roles: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

/** Names of a document's members. */
const MEMBERS = ["version", "server", "status", "roles"];
const SERVER_MEMBERS = ["url", "instance"];

type Members = Record<string, unknown>;

export const invalid = (where: string, why: string, help?: string) =>
  new SvcError("config_invalid", `Cannot use SVC_CARETAKER_CONFIG: ${where}: ${why}`, {
    help: help ?? "correct the document",
  });

function membersOf(value: unknown, where: string, known?: readonly string[]): Members {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw invalid(where, "expected an object");
  }
  for (const name of known ? Object.keys(value) : []) {
    if (known!.includes(name)) continue;
    throw invalid(where, `unknown member ${JSON.stringify(name)}${suggestion(name, known!)}`);
  }
  return value as Members;
}

/** Throws `config_invalid` where the settings have other members than these. */
export function requireMembers(settings: Members, role: string, known: readonly string[]): void {
  membersOf(settings, `roles.${role}`, known);
}

/** A text of some length. Throws `config_invalid`. */
export function requireText(value: unknown, where: string): string {
  if (typeof value === "string" && value !== "") return value;
  throw invalid(where, "expected a text");
}

/**
 * Reads the document. Which roles there are is checked where they are started (roles.ts). Throws
 * `config_invalid` with the path of what is wrong, also for a version that another build wrote.
 */
export function parseConfig(text: string): CaretakerConfig {
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch {
    throw invalid("the document", "it is not JSON");
  }
  const { version } = membersOf(read, "the document");
  if (version !== CONFIG_VERSION) {
    throw invalid(
      "version",
      `this build reads ${CONFIG_VERSION}, not ${JSON.stringify(version)}`,
      "run the caretaker from an image of the server's version: svc image agent",
    );
  }
  const { server, status, roles } = membersOf(read, "the document", MEMBERS);
  const found: Record<string, Members> = {};
  for (const [name, settings] of Object.entries(membersOf(roles, "roles"))) {
    found[name] = membersOf(settings, `roles.${name}`);
  }
  if (Object.keys(found).length === 0) throw invalid("roles", "there is none");
  const way = server === undefined ? undefined : membersOf(server, "server", SERVER_MEMBERS);
  return {
    version: CONFIG_VERSION,
    ...way && {
      server: {
        url: requireText(way.url, "server.url"),
        instance: requireText(way.instance, "server.instance"),
      },
    },
    ...status !== undefined && { status: requireText(status, "status") },
    roles: found,
  };
}
