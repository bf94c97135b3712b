/**
 * The YAML package; import this module lazily. In a bundle only a static import gives a CommonJS package's
 * names.
 */
export { isMap, isScalar, LineCounter, parse, parseDocument, stringify, YAMLMap } from "yaml";
