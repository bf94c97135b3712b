/** Checks a PEM file when its path is set, while somebody is there to correct it. */
import { X509Certificate } from "node:crypto";
import { fileTrouble } from "../../base/errors.ts";
import type { Field } from "./field.ts";

/** What is wrong with the file; undefined where it is valid. `path` is absolute. */
export function pemTrouble(path: string, kind: NonNullable<Field["pem"]>): string | undefined {
  let text: string;
  try {
    if (!Deno.statSync(path).isFile) return "it is not a file";
    text = Deno.readTextFileSync(path);
  } catch (error) {
    return fileTrouble(error);
  }
  if (kind === "key") {
    return /-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(text) ? undefined : "it holds no key in PEM";
  }
  if (!/-----BEGIN ([A-Z0-9]+ )?CERTIFICATE-----/.test(text)) {
    return "it holds no certificate in PEM";
  }
  try {
    new X509Certificate(text);
    return undefined;
  } catch {
    return "its certificate cannot be read";
  }
}
