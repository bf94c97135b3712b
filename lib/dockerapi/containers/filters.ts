/** Filters of `docker ps`. */
import { notFound } from "../errors.ts";
import { filtered, type Filters, hasLabel, PORTS, type Tests } from "../filters.ts";
import { exitCodeOf, type Seen, stateOf } from "./seen.ts";
import { portOf } from "./spec.ts";

const TESTS: Tests<Seen> = {
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
    status.ports.some((one) => one.host && isAmong(value, one.host, one.protocol)),
  expose: ({ record }, value) =>
    Object.keys(record.config.ExposedPorts ?? {}).map(portOf)
      .some(({ container, protocol }) => isAmong(value, container, protocol)),
  "is-task": (_seen, value) => value === "false",
};

/** `ports`: "80", "80/udp", "80-90". */
function isAmong(ports: string, port: number, protocol = "tcp"): boolean {
  const [, first, last = first, wanted = "tcp"] = PORTS.exec(ports) ?? [];
  return wanted === protocol && Number(first) <= port && port <= Number(last);
}

function nameMatches(name: string, pattern: string): boolean {
  try {
    const form = new RegExp(pattern);
    return form.test(name) || form.test(`/${name}`);
  } catch {
    return name.includes(pattern);
  }
}

const createdOf = ({ record }: Seen) => Date.parse(record.created);

/** Those that match. Throws `argument_invalid`; `not_found` where `before` or `since` names no container. */
export function shownBy(all: readonly Seen[], filters: Filters): Seen[] {
  const timeOf = (value: string) => {
    const found = all.find(({ record }) => record.name === value || record.id.startsWith(value));
    if (found) return createdOf(found);
    throw notFound(`No such container: ${value}`);
  };
  return filtered(all, filters, {
    ...TESTS,
    before: (seen, value) => createdOf(seen) < timeOf(value),
    since: (seen, value) => createdOf(seen) > timeOf(value),
  });
}
