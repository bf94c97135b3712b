/** This machine's login at the registry of the image that is deployed. */
import type { Client } from "../client/client.ts";
import type { SpecBody } from "../client/deployments.ts";
import type { Io } from "../base/terminal.ts";
import { parseReference } from "../oci/reference.ts";
import { isSafe } from "../client/named_images.ts";
import { loginsFor } from "./build/logins.ts";
import type { Environment } from "./command.ts";

/** The image of a spec that is sent unread; only the server can tell what else YAML can mean. */
const IMAGE = /(?:^|[{,]\s*)["']?image["']?\s*:\s*["']?([^\s"',}]+)/m;

function imageOf(body: SpecBody): string | undefined {
  if ("text" in body) return IMAGE.exec(body.text)?.[1];
  const { image } = (body.spec ?? {}) as { image?: unknown };
  return typeof image === "string" ? image : undefined;
}

/** A name without a registry is mostly an image of the server: nobody is warned of a login that is not sent. */
function isQualified(image: string): boolean {
  try {
    return parseReference(image).registry !== undefined;
  } catch {
    return false; // the server refuses it
  }
}

/** Adds the login, where there is one. */
export async function withLogins(
  body: SpecBody,
  { client: { server }, env, io }: { client: Pick<Client, "server">; env: Environment; io: Io },
): Promise<SpecBody> {
  const image = imageOf(body);
  if (image === undefined || !isQualified(image) && !isSafe(server)) return body;
  const logins = await loginsFor({ server, names: [image], env, io });
  return logins ? { ...body, logins } : body;
}
