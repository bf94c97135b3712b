/**
 * The YAML package, to be imported lazily: a bundle gives a CommonJS package's names to a static import
 * only.
 */
export { isMap, isScalar, LineCounter, parse, parseDocument, stringify, YAMLMap } from "yaml";
