/** Ids as docker has them: 64 hexadecimal digits. */
import { createHash } from "node:crypto";

export const newId = (): string => crypto.getRandomValues(new Uint8Array(32)).toHex();

/** The id of what svc names: always the same for the same text. */
export const idOf = (text: string): string => createHash("sha256").update(text).digest("hex");

/** "3f1c5a0b9e21". */
export const short = (id: string): string => id.slice(0, 12);
