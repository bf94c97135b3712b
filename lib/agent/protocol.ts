/**
 * What a command and the agent say to each other: lines of JSON on a Unix socket. The agent's first line is an
 * {@linkcode AgentHello}. Then the command sends one {@linkcode AgentRequest}; {@linkcode AgentReply} lines come
 * back, of which `done` or `error` is the last. A command that hangs up before a `hold` is done takes it back.
 */
import type { Problem } from "../api/problem.ts";

/** Bytes of one line, at most: a spec with its configs and secrets. */
export const MAX_LINE = 64 << 20;

/** The program that the agent is, or that asks: later ones replace earlier ones. */
export interface Build {
  version: string;
  /** When the executable was written, in milliseconds since 1970; 0: it has no file of its own. */
  built: number;
}

export interface AgentHello {
  agent: Build;
  pid: number;
  /** RFC 3339. */
  since: string;
}

export type HeldState = "connecting" | "connected" | "reconnecting" | "failed";

/** What is to be held, complete: whoever has it can hold it. It may have secrets of its user's. */
export interface Description {
  /** Which of the program's holders does the work. */
  kind: string;
  /** The deployment. */
  name: string;
  /** The Compose project that it belongs to. */
  project?: string;
  /** The server and the way to it, as {@linkcode placeOf} names them. */
  place: string;
  /** The server, for a person. */
  server: string;
  /** Of the command that asked. */
  env: Readonly<Record<string, string>>;
  folder: string;
  /** For the holder. */
  work: unknown;
  /** For the holder, when it begins to hold it and not when it goes on; with another one it is the same thing. */
  begin?: unknown;
}

export interface HeldStatus {
  kind: string;
  name: string;
  project?: string;
  server: string;
  state: HeldState;
  /** Since when it is in this state (RFC 3339). */
  since: string;
  /** What a person reaches by it: "./src -> /app", "127.0.0.1:8080 -> web:80/tcp". */
  holds: string[];
  /** Why it is in this state, or what became of it. */
  detail?: string;
}

/** Which of the held things. */
export interface Choice {
  place: string;
  name?: string;
  project?: string;
}

export type AgentRequest =
  /** `again`: also where the same is held already. */
  | { type: "hold"; description: Description; again?: boolean }
  | { type: "status" }
  /** Ends what is chosen: sessions with their deployments. */
  | { type: "release"; choice: Choice }
  /** Ends everything that is held, then the agent. */
  | { type: "stop" }
  /** The agent ends and leaves what it holds to the next one. */
  | { type: "leave" };

export type AgentReply =
  | { type: "progress"; message: string }
  | { type: "done"; value?: unknown }
  | { type: "error"; error: Problem };

const partsOf = ({ version }: Build) => version.split(/[.+-]/).map((part) => Number(part) || 0);

/** True where `a` was made after `b`. */
export function isNewer(a: Build, b: Build): boolean {
  const [mine, theirs] = [partsOf(a), partsOf(b)];
  for (let index = 0; index < Math.max(mine.length, theirs.length); index++) {
    const difference = (mine[index] ?? 0) - (theirs[index] ?? 0);
    if (difference !== 0) return difference > 0;
  }
  return a.built > b.built;
}

/** One name for a server and the way to it, the same in each command. */
export function placeOf(
  { server, transport }: { server: string; transport: { kind: string; settings?: unknown } },
): string {
  return JSON.stringify([server, transport.kind, transport.settings ?? null]);
}
