/** The hello: the first message of each end of an attached session. */
import { SvcError } from "../../base/errors.ts";
import { isKind, type Kind } from "./kinds.ts";

/** Header with the caller's hello, so that the server can refuse it with an ordinary answer. */
export const HELLO_HEADER = "svc-attached";

/** Versions of the session's own protocol that this build speaks. */
export const VERSIONS = { oldest: 1, newest: 1 } as const;

/** Characters of a hello, at most. */
const MAX_HELLO = 8 * 1024;

/** The name of the session to resume, and the secret that proves that the caller owns it. */
export interface Resume {
  name: string;
  token: string;
}

export interface Hello {
  oldest: number;
  newest: number;
  /** Kinds of streams that the other side may open at this end; unknown kinds are ignored. */
  takes: readonly Kind[];
  /** Set by a caller that resumes a session on a new connection. */
  resume?: Resume;
}

/** JSON in characters that a header may contain. */
export function writeHello(takes: readonly Kind[], resume?: Resume): string {
  return JSON.stringify({ ...VERSIONS, takes, ...(resume && { resume }) })
    .replace(/[^ -~]/g, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

const isText = (value: unknown): value is string => typeof value === "string";

/** Undefined for anything but a hello. Unknown members are ignored. */
export function readHello(text: string): Hello | undefined {
  let value: Partial<Record<keyof Hello, unknown>>;
  try {
    if (text.length > MAX_HELLO) return undefined;
    value = Object(JSON.parse(text));
  } catch {
    return undefined;
  }
  const { oldest, newest, takes, resume } = value;
  if (!Number.isInteger(oldest) || !Number.isInteger(newest) || !Array.isArray(takes)) {
    return undefined;
  }
  const { name, token } = Object(resume) as Partial<Resume>;
  if (resume !== undefined && !(isText(name) && isText(token))) return undefined;
  return {
    oldest: oldest as number,
    newest: newest as number,
    takes: takes.filter(isKind),
    ...(resume !== undefined && { resume: { name: name!, token: token! } }),
  };
}

const shown = ({ oldest, newest }: Pick<Hello, "oldest" | "newest">) =>
  oldest === newest ? `version ${newest}` : `versions ${oldest} to ${newest}`;

/**
 * The newest version that both ends speak. Throws `unsupported` where there is none; the error says that
 * `attempt` is impossible, and names the other side `who`.
 */
export function agree(
  theirs: Pick<Hello, "oldest" | "newest">,
  { attempt, who, own = VERSIONS }: {
    attempt: string;
    who: "client" | "server";
    own?: Pick<Hello, "oldest" | "newest">;
  },
): number {
  const version = Math.min(own.newest, theirs.newest);
  if (version >= Math.max(own.oldest, theirs.oldest)) return version;
  const older = theirs.newest < own.oldest ? who : who === "client" ? "server" : "client";
  throw new SvcError(
    "unsupported",
    `Cannot ${attempt}: the ${who} speaks ${shown(theirs)} of attached sessions, not ${shown(own)}`,
    { help: `the ${older} is the older one: update svc there` },
  );
}
