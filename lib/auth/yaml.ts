/**
 * What is used of the package `yaml`, to be imported when a document is read. By way of this module: a
 * bundle gives a CommonJS package's names to static imports only.
 */
export { parseDocument } from "yaml";
