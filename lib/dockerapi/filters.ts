/** Filters of lists, of events and of `prune`. */
import { parseDuration } from "../base/duration.ts";
import { invalid } from "./errors.ts";
import type { Call } from "./request.ts";

export type Filters = ReturnType<Call["filters"]>;

/** By a filter's name: whether a value of it matches. */
export type Tests<T> = Readonly<Record<string, (one: T, value: string) => boolean>>;

export type Labels = Readonly<Record<string, string>> | null | undefined;

/** "a=b" matches that value, "a" any. */
export function hasLabel(labels: Labels, wanted: string): boolean {
  const [name, value] = wanted.split(/=(.*)/s);
  return labels != null && Object.hasOwn(labels, name) &&
    (value === undefined || labels[name] === value);
}

const BOOLEANS = ["0", "1", "f", "t", "false", "true"];

const isTime = (text: string) => {
  timeOf(text);
  return true;
};

export const PORTS = /^(\d+)(?:-(\d+))?(?:\/(tcp|udp|sctp))?$/;

/** What the values of filters have to be; of others, anything. */
const VALUES: Record<string, (value: string) => boolean> = {
  ...Object.fromEntries(
    ["all", "dangling", "is-task"].map((name) => [
      name,
      (value: string) => BOOLEANS.includes(value.toLowerCase()),
    ]),
  ),
  exited: (value) => /^-?\d+$/.test(value),
  expose: (value) => PORTS.test(value),
  health: (value) => ["none", "starting", "healthy", "unhealthy"].includes(value),
  publish: (value) => PORTS.test(value),
  status: (value) =>
    ["created", "running", "paused", "restarting", "removing", "exited", "dead"].includes(value),
  until: isTime,
};

/** True for "1", "true", "t" and "True". */
export const isTrue = (text: string): boolean => ["1", "true", "t"].includes(text.toLowerCase());

/** Milliseconds of a Unix time, an RFC 3339 time, or a duration before now. Throws `argument_invalid`. */
export function timeOf(text: string): number {
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text) * 1000;
  const time = Date.parse(text);
  if (!Number.isNaN(time)) return time;
  try {
    return Date.now() - parseDuration(text);
  } catch {
    throw invalid(`invalid time ${JSON.stringify(text)}`);
  }
}

/** Throws `argument_invalid` in docker's words for a filter that is not among `known`, and for a value of no sense. */
export function checkFilters(filters: Filters, known: readonly string[]): void {
  for (const [name, values] of filters) {
    if (!known.includes(name)) throw invalid(`invalid filter '${name}'`);
    const wrong = values.find((value) => VALUES[name]?.(value) === false);
    if (wrong !== undefined) throw invalid(`invalid filter '${name}=${wrong}'`);
  }
}

/** Filters all values of which have to match; of others, one. */
const WHOLE = ["label", "label!", "until", "before", "since"];

/** Those that match. Throws `argument_invalid` for a filter that has no test. */
export function filtered<T>(all: readonly T[], filters: Filters, tests: Tests<T>): T[] {
  checkFilters(filters, Object.keys(tests));
  return all.filter((one) =>
    [...filters].every(([name, values]) => {
      const test = (value: string) => tests[name](one, value);
      return WHOLE.includes(name) ? values.every(test) : values.some(test);
    })
  );
}

interface Dated {
  /** RFC 3339. */
  created: string;
  labels: Labels;
}

/** What `prune` may be told. */
export const PRUNE_TESTS: Tests<Dated> = {
  until: ({ created }, text) => Date.parse(created) < timeOf(text),
  label: ({ labels }, text) => hasLabel(labels, text),
  "label!": ({ labels }, text) => !hasLabel(labels, text),
};
