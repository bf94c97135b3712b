/** Filters of `docker ps` and of `prune`. */
import { SvcError } from "../../base/errors.ts";
import { parseDuration } from "../../base/duration.ts";
import type { Call } from "../route.ts";
import { exitCodeOf, type Seen, stateOf } from "./seen.ts";

export type Filters = ReturnType<Call["filters"]>;

/** "a=b" matches that value, "a" any. */
export function hasLabel(
  labels: Record<string, string> | null | undefined,
  wanted: string,
): boolean {
  const [name, value] = wanted.split(/=(.*)/s);
  const found = labels?.[name];
  return found !== undefined && (value === undefined || found === value);
}

/** Milliseconds of a Unix time, an RFC 3339 time, or a duration before now. Throws `argument_invalid`. */
export function timeOf(text: string): number {
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text) * 1000;
  const time = Date.parse(text);
  if (!Number.isNaN(time)) return time;
  try {
    return Date.now() - parseDuration(text);
  } catch {
    throw new SvcError("argument_invalid", `invalid time ${JSON.stringify(text)}`);
  }
}

type Test = (seen: Seen, value: string) => boolean;

const TESTS: Record<string, Test> = {
  id: ({ record }, value) => record.id.startsWith(value),
  name: ({ record }, value) => nameMatches(record.name, value),
  label: ({ record }, value) => hasLabel(record.config.Labels, value),
  status: (seen, value) => stateOf(seen) === value,
  exited: (seen, value) => stateOf(seen) === "exited" && exitCodeOf(seen) === Number(value),
  ancestor: ({ record }, value) =>
    [record.image, record.image.replace(/:[^/]*$/, "")].includes(value) ||
    value !== "" &&
      record.imageId.replace(/^sha256:/, "").startsWith(value.replace(/^sha256:/, "")),
  network: ({ record }, value) => value in record.endpoints,
  volume: ({ record }, value) =>
    record.mounts.some(({ Name, Destination }) => Name === value || Destination === value),
  health: ({ instance }, value) => (instance?.health?.state ?? "none") === value,
  publish: ({ status }, value) =>
    status.ports.some(({ host, protocol }) =>
      value === `${host}` || value === `${host}/${protocol}`
    ),
  expose: ({ record }, value) =>
    Object.keys(record.config.ExposedPorts ?? {}).some((port) =>
      port === value || port === `${value}/tcp`
    ),
  "is-task": (_seen, value) => value === "false",
};

function nameMatches(name: string, pattern: string): boolean {
  try {
    const form = new RegExp(pattern);
    return form.test(name) || form.test(`/${name}`);
  } catch {
    return name.includes(pattern);
  }
}

const unknown = (name: string) => new SvcError("argument_invalid", `invalid filter '${name}'`);

/** Those that match. All labels have to match, of other filters one value. Throws `argument_invalid`. */
export function filtered(all: readonly Seen[], filters: Filters): Seen[] {
  let rest = [...all];
  for (const [name, values] of filters) {
    if (name === "before" || name === "since") {
      const times = values.map((value) => {
        const other = all.find(({ record }) =>
          record.name === value || record.id.startsWith(value)
        );
        if (!other) throw new SvcError("not_found", `No such container: ${value}`);
        return Date.parse(other.record.created);
      });
      rest = rest.filter(({ record }) =>
        times.every((time) => {
          const own = Date.parse(record.created);
          return name === "before" ? own < time : own > time;
        })
      );
      continue;
    }
    const test = TESTS[name];
    if (!test) throw unknown(name);
    rest = rest.filter((seen) =>
      name === "label"
        ? values.every((value) => test(seen, value))
        : values.some((value) => test(seen, value))
    );
  }
  return rest;
}

/** The filters of `prune`: until, label, label!. Throws `argument_invalid`. */
export function prunable(
  { created, labels }: { created: string; labels: Record<string, string> | null | undefined },
  filters: Filters,
  more: readonly string[] = [],
): boolean {
  return [...filters].every(([name, values]) => {
    if (name === "until") return values.every((text) => Date.parse(created) < timeOf(text));
    if (name === "label") return values.every((text) => hasLabel(labels, text));
    if (name === "label!") return values.every((text) => !hasLabel(labels, text));
    if (more.includes(name)) return true;
    throw unknown(name);
  });
}
