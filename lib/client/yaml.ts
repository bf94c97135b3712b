/**
 * The YAML package; import this module lazily. In a bundle only a static import gives a CommonJS package's
 * names.
 */
export {
  Document,
  isMap,
  isScalar,
  LineCounter,
  parse,
  parseDocument,
  stringify,
  visit,
  YAMLMap,
} from "yaml";
