/**
 * Names under which a server keeps what it reads of mounts with `,cache`. A name is as good as a password for what
 * was kept: it comes of the source's path and of a secret that only this user of this machine has.
 */
import { writeFileAtomic } from "../../base/fs.ts";
import { dirname, join } from "../../base/path.ts";
import { type LocationInput, profilePath } from "../profile/location.ts";

const SECRET = /^[0-9a-f]{64}$/;
const random = () => crypto.getRandomValues(new Uint8Array(32)).toHex();

/** The user's secret, made at its first use; without a folder for it, one that nothing outlives. */
async function secret(env: LocationInput["env"]): Promise<string> {
  const profile = profilePath({ os: Deno.build.os, env, explicit: env.SVC_CONFIG });
  if (profile === undefined) return random();
  const path = join(dirname(profile), "file-cache.key");
  const known = await Deno.readTextFile(path).catch(() => "");
  if (SECRET.test(known)) return known;
  const made = random();
  try {
    // A folder that somebody named is his to make.
    if (!env.SVC_CONFIG) await Deno.mkdir(dirname(path), { recursive: true });
    await writeFileAtomic(path, made, { mode: 0o600 });
  } catch {
    // It cannot be kept: what the server keeps is found in this session alone.
  }
  return made;
}

/** Gives a source's name. The source is an absolute path without links. */
export async function cacheNames(
  env: LocationInput["env"],
): Promise<(path: string) => Promise<string>> {
  const raw = new TextEncoder().encode(await secret(env));
  const how = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", raw, how, false, ["sign"]);
  return async (path) =>
    new Uint8Array(await crypto.subtle.sign("HMAC", key, new TextEncoder().encode(path))).toHex();
}
