/**
 * Dispatch on route rows. Paths are compiled once into a tree of segments; a request costs one walk down
 * it, whatever the number of rows, and rows without parameters cost one map look-up.
 *
 * `{name+}` takes one or more whole segments. What follows it is matched from the end of the path, so a
 * repository may be called `a/blobs/b`. A literal segment wins over a parameter, a longer suffix over a
 * shorter one.
 */
import { SvcError } from "../base/errors.ts";
import type { Route } from "./route.ts";

type Methods = Map<string, Route>;

/** The tree of segments after the literal prefix, and also of those before the end: one type for both directions. */
interface Node {
  literal: Map<string, Node>;
  param?: Node;
  /** Below `{name+}`: the rest of the pattern, last segment first. */
  rest?: Node;
  methods?: Methods;
}

interface Leaf {
  methods: Methods;
  /** Raw values in the order of the pattern's parameters. */
  values: string[];
}

export type RouteMatch =
  | { kind: "found"; route: Route; params: Record<string, string> }
  | { kind: "method"; allow: string[] }
  | { kind: "none" };

const newNode = (): Node => ({ literal: new Map() });

const PARAM = /^\{([A-Za-z][A-Za-z0-9]*)(\+?)\}$/;

function split(path: string): string[] {
  return path.slice(1).split("/");
}

function descend(node: Node, segments: string[]): Node {
  for (const segment of segments) {
    if (PARAM.test(segment)) node = node.param ??= newNode();
    else {
      let next = node.literal.get(segment);
      if (!next) node.literal.set(segment, next = newNode());
      node = next;
    }
  }
  return node;
}

export class Router {
  readonly routes: readonly Route[];
  #root = newNode();
  #exact = new Map<string, Methods>();
  #names = new Map<Route, string[]>();

  /** Throws on routes that cannot be told apart: a defect of the table, not of a request. */
  constructor(routes: readonly Route[]) {
    this.routes = routes;
    for (const route of routes) this.#add(route);
  }

  #add(route: Route): void {
    const fault = (what: string) => new Error(`route ${route.method} ${route.path}: ${what}`);
    if (!route.path.startsWith("/")) throw fault("must start with a slash");
    const segments = split(route.path);
    const params = segments.map((segment) => PARAM.exec(segment));
    for (const [index, segment] of segments.entries()) {
      if (!params[index] && /[{}]/.test(segment)) throw fault(`bad segment ${segment}`);
    }
    const names = params.filter((p) => p !== null).map((p) => p[1]);
    if (new Set(names).size !== names.length) throw fault("a parameter twice");
    const plus = params.findIndex((p) => p?.[2] === "+");
    if (params.findLastIndex((p) => p?.[2] === "+") !== plus) throw fault("two {name+}");

    let methods: Methods;
    if (names.length === 0) {
      methods = this.#exact.get(route.path) ?? new Map();
      this.#exact.set(route.path, methods);
    } else {
      let node = descend(this.#root, plus < 0 ? segments : segments.slice(0, plus));
      if (plus >= 0) {
        node = descend(node.rest ??= newNode(), segments.slice(plus + 1).reverse());
      }
      methods = node.methods ??= new Map();
    }
    if (methods.has(route.method)) throw fault("there twice");
    methods.set(route.method, route);
    this.#names.set(route, names);
  }

  /** Throws `argument_invalid` where a parameter is not valid percent-encoding. */
  match(method: string, path: string): RouteMatch {
    const allow = new Set<string>();
    const select = (methods: Methods): Route | undefined => {
      const route = methods.get(method) ?? (method === "HEAD" ? methods.get("GET") : undefined);
      if (!route) {
        for (const name of methods.keys()) allow.add(name);
        if (methods.has("GET")) allow.add("HEAD");
      }
      return route;
    };
    const exact = this.#exact.get(path);
    const route = exact && select(exact);
    if (route) return { kind: "found", route, params: {} };
    if (path.startsWith("/")) {
      for (const leaf of forward(this.#root, split(path), 0, [])) {
        const found = select(leaf.methods);
        if (!found) continue;
        const params: Record<string, string> = {};
        for (const [index, name] of this.#names.get(found)!.entries()) {
          params[name] = decode(leaf.values[index]);
        }
        return { kind: "found", route: found, params };
      }
    }
    return allow.size > 0 ? { kind: "method", allow: [...allow].sort() } : { kind: "none" };
  }
}

function decode(text: string): string {
  if (!text.includes("%")) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    throw new SvcError(
      "argument_invalid",
      `Cannot read the path: ${JSON.stringify(text)} is not valid percent-encoding`,
    );
  }
}

function* forward(
  node: Node,
  segments: string[],
  at: number,
  values: string[],
): Generator<Leaf> {
  if (at === segments.length) {
    if (node.methods) yield { methods: node.methods, values };
    return;
  }
  const segment = segments[at];
  const literal = node.literal.get(segment);
  if (literal) yield* forward(literal, segments, at + 1, values);
  if (node.param && segment !== "") {
    yield* forward(node.param, segments, at + 1, [...values, segment]);
  }
  if (node.rest) yield* backward(node.rest, segments, at, segments.length, values, []);
}

/** `segments[start, end)` are the segments between the prefix and the suffix matched so far. */
function* backward(
  node: Node,
  segments: string[],
  start: number,
  end: number,
  before: string[],
  after: string[],
): Generator<Leaf> {
  if (end <= start) return;
  const segment = segments[end - 1];
  const literal = node.literal.get(segment);
  if (literal) yield* backward(literal, segments, start, end - 1, before, after);
  if (node.param && segment !== "") {
    yield* backward(node.param, segments, start, end - 1, before, [segment, ...after]);
  }
  if (node.methods) {
    const middle = segments.slice(start, end);
    if (!middle.includes("")) {
      yield { methods: node.methods, values: [...before, middle.join("/"), ...after] };
    }
  }
}
