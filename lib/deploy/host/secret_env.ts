/**
 * Variables of a workload that stand in no file of the disk. The bundle's document has none of them: while the engine
 * makes the container, a copy of it with them takes the document's place, on the tmpfs that the values come from.
 */
import { basename, dirname, join } from "node:path";
import { SvcError } from "../../base/errors.ts";
import { exists, readJson } from "../../base/fs.ts";
import { decodeDocument, encodeDocument } from "../../runtime/document.ts";
import type { RuntimeSpec } from "../../runtime/spec.ts";

const DOCUMENT = "config.json";
/** The document without them, while the other is in its place. */
const PLAIN = "config.plain.json";

/** Puts the document back, also one that was left by a process that was killed. Idempotent. */
async function restore(bundle: string): Promise<void> {
  const plain = join(bundle, PLAIN);
  if (await exists(plain)) await Deno.rename(plain, join(bundle, DOCUMENT));
}

/**
 * Until it is disposed of, the bundle's document has the variables of that file, which win over those of the same
 * names. Undefined: there are none. Throws `conflict` where the file is gone.
 */
export async function secretVariables(
  bundle: string,
  file: string | undefined,
): Promise<AsyncDisposable | undefined> {
  if (file === undefined) return undefined;
  await restore(bundle);
  const values = await readJson<Record<string, string>>(file);
  if (!values) {
    throw new SvcError(
      "conflict",
      "Cannot start the workload: the credentials that it gets as variables are gone",
      { help: "deploy it again with svc deploy --session" },
    );
  }
  const path = join(bundle, DOCUMENT);
  // Our own: the document of a bundle that this server wrote.
  const document = decodeDocument<RuntimeSpec>(await Deno.readTextFile(path));
  const { process } = document;
  const others = process.env.filter((entry) => !Object.hasOwn(values, entry.split("=", 1)[0]));
  process.env = [...others, ...Object.entries(values).map(([name, value]) => `${name}=${value}`)];
  const secret = join(dirname(file), `${basename(bundle)}.json`);
  await Deno.writeTextFile(secret, encodeDocument(document), { mode: 0o600 });
  await Deno.rename(path, join(bundle, PLAIN));
  await Deno.symlink(secret, path);
  return {
    async [Symbol.asyncDispose]() {
      await restore(bundle);
      await Deno.remove(secret);
    },
  };
}
