/** execve(2): another program in this process's place. */
import { encodeRaw } from "../base/raw_string.ts";
import { SystemError } from "./errno.ts";
import { check, errno, libc } from "./libc.ts";

/** A string with its NUL, in memory that does not move (an ArrayBuffer made by itself is not on the heap). */
function fixed(text: string): Uint8Array<ArrayBuffer> {
  if (text.includes("\0")) throw new SystemError(22, "execve", JSON.stringify(text.slice(0, 80)));
  const bytes = encodeRaw(text);
  const memory = new Uint8Array(new ArrayBuffer(bytes.length + 1));
  memory.set(bytes);
  return memory;
}

/** A NULL-terminated array of pointers to `strings`. */
function pointers(strings: readonly Uint8Array<ArrayBuffer>[]): Uint8Array<ArrayBuffer> {
  const array = new BigUint64Array(new ArrayBuffer(8 * (strings.length + 1)));
  for (const [at, bytes] of strings.entries()) {
    array[at] = BigInt(Deno.UnsafePointer.value(Deno.UnsafePointer.of(bytes)));
  }
  return new Uint8Array(array.buffer);
}

/**
 * Replaces this process: same process id, standard streams, limits and folder; descriptors that are not
 * close-on-exec stay open, signal handlers are the default ones again. Returns only by throwing.
 */
export function execve(
  path: string,
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): never {
  const program = fixed(path);
  const strings = [
    args.map(fixed),
    Object.entries(env).flatMap(([name, value]) =>
      value === undefined ? [] : [fixed(`${name}=${value}`)]
    ),
  ];
  const [argv, envp] = strings.map(pointers);
  const result = libc().execve(program, argv, envp);
  const code = errno[0];
  // Used after the call, so that the strings are not collected before it.
  const count = strings.flat().length;
  check(result, code, "execve", path);
  throw new Error(`execve ${path} returned (${count} strings)`);
}
