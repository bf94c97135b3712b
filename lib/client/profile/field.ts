/** A row of the profile's field tables. The tables (fields.ts) are data: one record per field. */
import { splitLogin } from "../../base/host_port.ts";

export interface Field {
  name: string;
  kind: "string" | "bool" | "int" | "strings" | "block" | "blocks";
  /** The default in words; absent: none. */
  defaultText?: string;
  help: string;
  /** Fields of a block, or of each item of `blocks`. */
  fields?: readonly Field[];
  /** Name of the block's table on the reference page. */
  title?: string;
  choices?: readonly string[];
  /** A file's path: `~/` is the home folder; a relative path starts at the profile file's folder. */
  path?: boolean;
  /** What the PEM file holds; the file is checked when its path is set. */
  pem?: "certificate" | "key";
  /** Not shown unless a person asks for it. */
  secret?: boolean;
  /** What is wrong with the value; undefined where it is valid. */
  check?: (value: never) => string | undefined;
  /** What is wrong with the combination of a block's members, and the member to name in the error. */
  together?: (block: Record<string, unknown>) => { field: string; why: string } | undefined;
}

/** The rule that both members are set or neither is. */
export function pair(a: string, b: string): NonNullable<Field["together"]> {
  return (block) => {
    if ((block[a] === undefined) === (block[b] === undefined)) return undefined;
    const [field, other] = block[a] === undefined ? [a, b] : [b, a];
    return { field, why: `missing; ${other} needs it` };
  };
}

export function port(value: number): string | undefined {
  return value >= 1 && value <= 65535 ? undefined : `expected 1..65535, got ${value}`;
}

/** `[user@]host[:port]`, as `ssh` takes it. */
export function login(value: string): string | undefined {
  return splitLogin(value)?.host === undefined
    ? `${JSON.stringify(value)} is not [user@]host[:port]`
    : undefined;
}

/** `host[:port]`, an IPv6 host in brackets. */
export function hostPort(value: string): string | undefined {
  return /^(\[[0-9A-Fa-f:.%\w]+\]|[^\s:[\]/@]+)(:\d{1,5})?$/.test(value)
    ? undefined
    : `${JSON.stringify(value)} is not host[:port]`;
}
