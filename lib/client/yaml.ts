/**
 * The YAML package; import this module lazily. In a bundle only a static import gives a CommonJS package's
 * names.
 */
export {
  Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  parse,
  parseAllDocuments,
  parseDocument,
  stringify,
  visit,
  YAMLMap,
} from "yaml";
