/**
 * Expands shorthand of docker and compose to the spec's long forms. Each function returns an unknown form
 * unchanged: the schema then reports the error with its path. A malformed shorthand throws an
 * {@linkcode Issue}.
 */
import { nearest } from "../base/nearest.ts";

/** An error message; the schema adds the path. */
export class Issue extends Error {}

type Json = Record<string, unknown>;

/** Splits as a shell does: blanks, single and double quotes, backslash. No expansion. */
export function shellWords(text: string): string[] {
  const words: string[] = [];
  let word: string | undefined;
  let quote = "";
  for (let i = 0; i < text.length; i++) {
    const char = text[i];
    if (quote === "'") {
      if (char === "'") quote = "";
      else word += char;
    } else if (quote === '"') {
      if (char === '"') quote = "";
      else if (char === "\\" && '"\\$`'.includes(text[i + 1] ?? " ")) word += text[++i];
      else word += char;
    } else if (char === "'" || char === '"') {
      quote = char;
      word ??= "";
    } else if (char === "\\" && i + 1 < text.length) {
      word = (word ?? "") + text[++i];
    } else if (/\s/.test(char)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else {
      word = (word ?? "") + char;
    }
  }
  if (quote) throw new Issue(`expected a closing ${quote}`);
  if (word !== undefined) words.push(word);
  return words;
}

const PROTOCOLS = ["tcp", "udp", "sctp"];

function portRange(text: string): [number, number] {
  const match = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(text);
  const first = Number(match?.[1]);
  const last = Number(match?.[2] ?? first);
  if (!match || last > 65535 || last < first) {
    throw new Issue(`expected a port or a range of ports, got ${JSON.stringify(text)}`);
  }
  return [first, last];
}

/** `[[hostIP:]host:]container[/protocol]`, each port possibly a range "8000-8010". */
export function expandPort(value: unknown): unknown[] {
  if (typeof value === "number") return [{ container: value }];
  if (typeof value !== "string") return [value];
  const [, address, protocol = "tcp"] = /^(.*?)(?:\/([a-z]+))?$/i.exec(value)!;
  if (!PROTOCOLS.includes(protocol.toLowerCase())) {
    throw new Issue(`expected protocol tcp, udp or sctp, got ${JSON.stringify(protocol)}`);
  }
  const match = /^(?:(?:(\[[0-9a-f:.]+\]|[^:[\]]*):)?([\d-]*):)?([\d-]+)$/i.exec(address);
  if (!match) {
    throw new Issue(
      `expected [[address:]host:]container[/protocol], got ${JSON.stringify(value)}`,
    );
  }
  const [, ip, host, container] = match;
  const inside = portRange(container);
  const outside = host ? portRange(host) : undefined;
  if (outside && outside[1] - outside[0] !== inside[1] - inside[0]) {
    throw new Issue(`expected ranges of the same length, got ${JSON.stringify(value)}`);
  }
  return Array.from({ length: inside[1] - inside[0] + 1 }, (_, i) => ({
    container: inside[0] + i,
    ...(outside && { host: outside[0] + i }),
    ...(ip && { hostIP: ip.replace(/^\[|\]$/g, "") }),
    protocol: protocol.toLowerCase(),
  }));
}

/** `container[/protocol]`, the port possibly a range. */
export function expandExposed(value: unknown): unknown[] {
  if (typeof value !== "string" || !value.includes(":")) return expandPort(value);
  throw new Issue(
    `expected container[/protocol], got ${
      JSON.stringify(value)
    }; what is published stands in ports`,
  );
}

function flags(text: string | undefined, known: Record<string, Json>, whole: string): Json {
  const result: Json = {};
  for (const flag of (text ?? "").split(",").filter(Boolean)) {
    const meaning = known[flag];
    if (!meaning) {
      const near = nearest(flag, Object.keys(known));
      throw new Issue(
        `unknown option ${JSON.stringify(flag)} in ${JSON.stringify(whole)}` +
          (near ? `; did you mean ${near}?` : ""),
      );
    }
    Object.assign(result, meaning);
  }
  return result;
}

/** `source:target[:ro|rw|z|Z|cached…]`. */
export function expandMount(value: unknown): unknown {
  if (typeof value !== "string") return value;
  const match = /^([^:]+):(\/[^:]*)(?::([^:]*))?$/.exec(value);
  if (!match) throw new Issue(`expected source:/target[:ro], got ${JSON.stringify(value)}`);
  return {
    source: match[1],
    target: match[2],
    ...flags(match[3], {
      ro: { readOnly: true },
      rw: { readOnly: false },
      z: { selinux: "shared" },
      Z: { selinux: "private" },
    }, value),
  };
}

/** `name:/target[:ro]`. */
export function expandVolume(value: unknown): unknown {
  if (typeof value !== "string") return value;
  const match = /^([^:/]+):(\/[^:]*)(?::([^:]*))?$/.exec(value);
  if (!match) throw new Issue(`expected name:/target[:ro], got ${JSON.stringify(value)}`);
  return {
    name: match[1],
    target: match[2],
    ...flags(match[3], { ro: { readOnly: true }, rw: { readOnly: false } }, value),
  };
}

/** A list of NAME=VALUE, or a map whose numbers and booleans become text. */
export function expandMap(separators: string, form: string): (value: unknown) => unknown {
  return (value) => {
    if (Array.isArray(value)) {
      const result: Record<string, string> = {};
      for (const item of value) {
        const text = String(item);
        const at = [...text].findIndex((char) => separators.includes(char));
        if (typeof item !== "string" || at <= 0) {
          throw new Issue(`expected ${form}, got ${JSON.stringify(item)}`);
        }
        result[text.slice(0, at)] = text.slice(at + 1);
      }
      return result;
    }
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [
        key,
        typeof item === "number" || typeof item === "boolean" ? String(item) : item,
      ]),
    );
  };
}

/** A list of `name=soft[:hard]`, or a map name → number or {soft, hard}. */
export function expandUlimits(value: unknown): unknown {
  const pair = (name: string, limit: unknown): unknown =>
    typeof limit === "number"
      ? { name, soft: limit, hard: limit }
      : limit && typeof limit === "object"
      ? { name, ...limit }
      : { name, soft: limit };
  if (Array.isArray(value)) {
    return value.map((item) => {
      if (typeof item !== "string") return item;
      const match = /^([a-z_]+)=(-?\d+)(?::(-?\d+))?$/i.exec(item);
      if (!match) throw new Issue(`expected name=soft[:hard], got ${JSON.stringify(item)}`);
      return { name: match[1], soft: Number(match[2]), hard: Number(match[3] ?? match[2]) };
    });
  }
  if (value === null || typeof value !== "object") return value;
  return Object.entries(value).map(([name, limit]) => pair(name, limit));
}

/** One text as a list of one. */
export function expandList(value: unknown): unknown {
  return typeof value === "string" ? [value] : value;
}

/** `on-failure:3` as two fields; `false` as "no". Works on the whole spec. */
export function expandRestart(spec: unknown): unknown {
  if (spec === null || typeof spec !== "object" || Array.isArray(spec)) return spec;
  const { restart } = spec as Json;
  if (restart === false) return { ...spec, restart: "no" };
  const match = typeof restart === "string" && /^on-failure:(\d+)$/.exec(restart);
  if (!match) return spec;
  return { restartMaxAttempts: Number(match[1]), ...spec, restart: "on-failure" };
}
