/** Rules between the keys of one value, which its shape alone does not say. */
import { isIP } from "node:net";
import { Problem } from "./problem.ts";
import { isExtension, type Path } from "./shape/shape.ts";
import { isList, isMapping, type Mapping, type Value } from "./yaml/tree.ts";

function children(value: Value | undefined, path: Path): [Value, Path][] {
  if (isMapping(value)) return Array.from(value, ([key, child]) => [child, [...path, key]]);
  return isList(value) ? value.map((child, index) => [child, [...path, String(index)]]) : [];
}

function checkVolume(volume: Value, path: Path): void {
  if (!isMapping(volume) || volume.get("external") !== true) return;
  for (const key of volume.keys()) {
    if (key === "name" || key === "external" || isExtension(key)) continue;
    throw new Problem([...path, key], `an external volume cannot have ${key}: it is not made here`);
  }
}

function checkContent(object: Value, keys: readonly string[], path: Path): void {
  if (!isMapping(object)) return;
  const given = keys.filter((key) => object.has(key));
  if (given.length > 1) {
    throw new Problem([...path, given[1]], `${given.join(" and ")} exclude each other`);
  }
  if (given.length === 0 && !object.has("driver") && !object.has("external")) {
    throw new Problem(path, `one of ${keys.join(", ")} has to be there`);
  }
}

function checkRequest(request: Value, path: Path): void {
  if (isMapping(request) && request.has("count") && request.has("device_ids")) {
    throw new Problem(path, "count and device_ids exclude each other");
  }
}

function checkService(service: Mapping, path: Path): void {
  for (const [port, at] of children(service.get("ports"), [...path, "ports"])) {
    const ip = isMapping(port) ? port.get("host_ip") : undefined;
    if (typeof ip === "string" && !isIP(ip)) {
      throw new Problem([...at, "host_ip"], `${JSON.stringify(ip)} is no IP address`);
    }
  }
  const develop = service.get("develop");
  const watch = isMapping(develop) ? develop.get("watch") : undefined;
  for (const [rule, at] of children(watch, [...path, "develop", "watch"])) {
    if (isMapping(rule) && rule.get("path") === "") {
      throw new Problem([...at, "path"], "it is empty");
    }
  }
  for (const [request, at] of children(service.get("gpus"), [...path, "gpus"])) {
    checkRequest(request, at);
  }
  const steps = ["deploy", "resources", "reservations", "devices"];
  const devices = steps.reduce<Value | undefined>(
    (value, key) => isMapping(value) ? value.get(key) : undefined,
    service,
  );
  for (const [request, at] of children(devices, [...path, ...steps])) checkRequest(request, at);
}

/** Throws {@linkcode Problem}. */
export function checkRules(root: Mapping): void {
  for (const [volume, path] of children(root.get("volumes"), ["volumes"])) {
    checkVolume(volume, path);
  }
  for (const [object, path] of children(root.get("configs"), ["configs"])) {
    checkContent(object, ["file", "environment", "content"], path);
  }
  for (const [object, path] of children(root.get("secrets"), ["secrets"])) {
    checkContent(object, ["file", "environment"], path);
  }
  for (const [service, path] of children(root.get("services"), ["services"])) {
    if (isMapping(service)) checkService(service, path);
  }
}
