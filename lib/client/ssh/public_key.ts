/** Public keys as commands show and enrol them. */
export { fingerprint, parsePublicKey } from "../../wire/ssh/packing.ts";
