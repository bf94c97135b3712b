/** Callers of servers that have a policy, and images for them. */
import { join } from "node:path";
import { SignJWT } from "jose";
import { writeBaseLayout } from "../peers/base_image.ts";
import { runTool, type Server } from "./harness.ts";

export const SECRET = "hs256-secret-of-the-rights-tests-0123456789";
/** Of the subject `token`. */
export const TOKEN = "e2e-static-token-of-the-rights";

export const jwt = (sub: string, scope = "api") =>
  new SignJWT({ sub, scope }).setProtectedHeader({ alg: "HS256" }).setExpirationTime("10m")
    .sign(new TextEncoder().encode(SECRET));

/** A base image under these names. Returns its digest. */
export async function push(server: Server, ...names: string[]): Promise<string> {
  const folder = await Deno.makeTempDir({ prefix: "svc-e2e-rights-" });
  try {
    const digest = await writeBaseLayout(join(folder, "layout"), "base", {});
    for (const name of names) {
      const to = ["--dest-tls-verify=false", "--dest-creds", `x:${TOKEN}`];
      await runTool("skopeo", [
        ...["--insecure-policy", "copy", "--quiet", ...to],
        ...[`oci:${folder}/layout:base`, `docker://${server.host}/${name}`],
      ]);
    }
    return digest;
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}
