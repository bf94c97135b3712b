/** Writes the short forms of a tree out, and gives what the specification says in place of what is not said. */
import { parseMount } from "./forms/mount.ts";
import { parsePorts } from "./forms/port.ts";
import { started, toMapping } from "./merge.ts";
import { Problem } from "./problem.ts";
import { changeChildren, type LongForm, type Path, type Shape } from "./shape/shape.ts";
import { textOf } from "./yaml/scalar.ts";
import {
  isList,
  isMapping,
  type List,
  type Mapping,
  mapping,
  placeIn,
  type Scalar,
  setPlace,
  type Value,
} from "./yaml/tree.ts";

/** True: text that cannot be parsed stays as it is, since it still has variables. */
interface Mode {
  lenient: boolean;
  warn: (text: string) => void;
}

type Form = (value: Value, path: Path, mode: Mode) => Value;

/** Each item of a list, several for one item where `expand` gives several, all at the item's place. */
function expandItems(list: List, expand: (item: Value, index: number) => Value[]): List {
  const result: List = [];
  for (const [index, item] of list.entries()) {
    for (const one of expand(item, index)) {
      setPlace(result, result.length, placeIn(list, index));
      result.push(one);
    }
  }
  return result;
}

function listed(value: Value): List {
  return isList(value) ? value : [value];
}

function setDefault(map: Mapping, key: string, value: Value): void {
  if (!map.has(key)) map.set(key, value);
}

function splitPairs(value: Value, path: Path, { lenient }: Mode): Value {
  if (!isList(value)) return value;
  const result: Mapping = new Map();
  for (const [index, item] of value.entries()) {
    const [key, ...rest] = String(item).split("=");
    if (rest.length === 0) {
      if (lenient) return value;
      throw new Problem([...path, String(index)], `${JSON.stringify(item)} is not KEY=VALUE`);
    }
    result.set(key, rest.join("="));
    setPlace(result, key, placeIn(value, index));
  }
  return result;
}

function splitDevice(value: Value, path: Path, { lenient }: Mode): Value {
  if (typeof value !== "string") return value;
  const parts = value.split(":");
  if (parts.length > 3) {
    if (lenient) return value;
    throw new Problem(path, `${value} has too many colons`, "write source, target and permissions");
  }
  const [source, target, permissions = "rwm"] = parts;
  return mapping({ source, target: target || source, permissions });
}

function expandPorts(value: Value, path: Path, { lenient }: Mode): Value {
  if (!isList(value)) return value;
  try {
    return expandItems(
      value,
      (item, index) =>
        isMapping(item) ? [item] : parsePorts(textOf(item as Scalar), [...path, String(index)]),
    );
  } catch (error) {
    if (lenient && error instanceof Problem) return value;
    throw error;
  }
}

function splitSsh(value: Value, path: Path): Value {
  if (!isList(value)) return value;
  const result: Mapping = new Map();
  for (const [index, item] of value.entries()) {
    const [id, ...rest] = String(item).split("=");
    if (rest.length === 0 && id !== "default") {
      throw new Problem([...path, String(index)], `${id} has no path`, "write ID=PATH, or default");
    }
    result.set(id, rest.length > 0 ? rest.join("=") : null);
  }
  return result;
}

function externalName(value: Value, path: Path, { warn }: Mode): Value {
  if (!isMapping(value)) return value;
  const external = value.get("external");
  if (!isMapping(external)) return value;
  value.set("external", true);
  const name = external.get("name");
  if (name === undefined) return value;
  warn(`${path.join(".")}: external.name is deprecated. Please set name and external: true`);
  if (value.has("name") && value.get("name") !== name) {
    throw new Problem(path, "name and external.name differ", "use name alone");
  }
  value.set("name", name);
  return value;
}

const FORMS: Record<LongForm, Form> = {
  build: (value) => typeof value === "string" ? mapping({ context: value }) : value,
  strings: (value) => typeof value === "string" ? [value] : value,
  names: (value) => isList(value) ? toMapping(value) : value,
  depends(value, path) {
    const result = toMapping(value, started);
    for (const [name, dependency] of result) {
      if (!isMapping(dependency)) throw new Problem([...path, name], "expected a mapping");
      setDefault(dependency, "condition", "service_started");
      setDefault(dependency, "required", true);
    }
    return result;
  },
  device: splitDevice,
  envFiles: (value) =>
    expandItems(listed(value), (item) => {
      const file = isMapping(item) ? item : mapping({ path: item });
      setDefault(file, "required", true);
      return [file];
    }),
  extends: (value) => typeof value === "string" ? mapping({ service: value }) : value,
  external: externalName,
  gpus: (value) => typeof value === "string" ? [mapping({ count: "all" })] : value,
  include: (value) => typeof value === "string" ? mapping({ path: value }) : value,
  pairs: splitPairs,
  ports: expandPorts,
  reference: (value) => typeof value === "string" ? mapping({ source: value }) : value,
  ssh: splitSsh,
  text: (value) => typeof value === "string" ? value : textOf(value as Scalar),
  mount(value, path, { lenient }) {
    if (typeof value !== "string") return value;
    try {
      return parseMount(value, path);
    } catch (error) {
      if (lenient && error instanceof Problem) return value;
      throw error;
    }
  },
};

/** May change the tree itself. Throws {@linkcode Problem}. */
export function writeOut(
  value: Value,
  shape: Shape | undefined,
  mode: Mode,
  path: Path = [],
): Value {
  if (!shape) return value;
  const long = shape.form && value !== null ? FORMS[shape.form](value, path, mode) : value;
  return changeChildren(long, shape, path, (child, of, at) => writeOut(child, of, mode, at));
}

function each(value: Value | undefined, act: (child: Value, key: string) => void): void {
  if (isMapping(value)) { for (const [key, child] of value) act(child, key); }
  else if (isList(value)) {
    for (const [index, child] of value.entries()) {
      act(child, String(index));
    }
  }
}

function at(value: Value | undefined, ...path: string[]): Value | undefined {
  return path.reduce<Value | undefined>((v, key) => isMapping(v) ? v.get(key) : undefined, value);
}

/** Defaults that hold before paths become absolute: of builds, secrets, ports and device requests. */
export function setDefaults(root: Mapping): void {
  each(root.get("services"), (service) => {
    const build = at(service, "build");
    if (isMapping(build)) setDefault(build, "context", ".");
    each(at(service, "secrets"), (secret) => {
      if (!isMapping(secret)) return;
      setDefault(
        secret,
        "target",
        `/run/secrets/${textOf(secret.get("source") as Scalar ?? null)}`,
      );
    });
    each(at(service, "ports"), (port) => {
      if (!isMapping(port)) return;
      setDefault(port, "protocol", "tcp");
      setDefault(port, "mode", "ingress");
    });
    const requests = [
      at(service, "gpus"),
      at(service, "deploy", "resources", "reservations", "devices"),
    ];
    for (const list of requests) {
      each(list, (request) => {
        if (isMapping(request) && !request.has("device_ids")) setDefault(request, "count", "all");
      });
    }
  });
}
