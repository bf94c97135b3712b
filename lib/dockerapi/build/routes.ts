/** `POST /build` and what belongs to builds. */
import type { Logins } from "../../api/build_logins.ts";
import { isSafe } from "../../client/named_images.ts";
import type { DockerApi } from "../api.ts";
import { imagesOf } from "../images/access.ts";
import { registryConfig } from "../images/login.ts";
import { streamed } from "../messages.ts";
import type { Answer, Call } from "../request.ts";
import type { ApiRoute } from "../route.ts";
import { ClassicStream } from "./classic.ts";
import { cannotPrune, collectAll } from "./garbage.ts";
import { wishOf } from "./parameters.ts";
import { runBuild } from "./run.ts";
import { wholeArchive } from "./whole_archive.ts";
import { queryOf } from "./wish.ts";

/** The caller's logins, where the way to the server is one that may carry them. */
function loginsOf(call: Call, server: string): Logins | undefined {
  const logins = registryConfig(call.header("x-registry-config"));
  return logins.size > 0 && isSafe(server) ? Object.fromEntries(logins) : undefined;
}

async function classic(call: Call, api: DockerApi): Promise<Answer> {
  const wish = wishOf(call);
  const query = queryOf(wish, await imagesOf(api));
  const client = api.client(call.signal);
  const logins = loginsOf(call, client.server);
  return await streamed(async (tell) => {
    const stream = new ClassicStream(tell, { quiet: call.flag("q"), names: wish.names });
    const context = wish.remote
      ? { kind: "remote" as const }
      : { kind: "archive" as const, body: wholeArchive(call.body()) };
    const work = { query, context, ...(logins && { logins }) };
    for await (const event of runBuild(client, work, call.signal)) stream.event(event);
    for (const name of wish.names) api.events.tell("image", "tag", stream.imageId ?? "", { name });
  }, call.signal);
}

async function build(call: Call, api: DockerApi): Promise<Answer> {
  if (call.query.get("version") !== "2") return await classic(call, api);
  return await (await import("../buildkit/routes.ts")).buildWithSession(call, api);
}

/** Parameters by which a part of the cache is chosen, and the values with which they choose none. */
const CHOICES = [
  "all",
  "filters",
  "keep-storage",
  "reserved-space",
  "max-used-space",
  "min-free-space",
];
const NO_CHOICE = ["", "0", "{}"];

/** The cache is a part of the server's garbage, which is collected as a whole. */
async function prune({ query, signal }: Call, api: DockerApi): Promise<Answer> {
  const choice = CHOICES.find((name) => !NO_CHOICE.includes(query.get(name) ?? ""));
  if (choice) throw cannotPrune(`${choice}=${query.get(choice)}`);
  const SpaceReclaimed = await collectAll(api, signal);
  return { json: { CachesDeleted: null, SpaceReclaimed } };
}

export const BUILD_ROUTES: readonly ApiRoute[] = [
  { method: "POST", path: "/build", handler: build },
  { method: "POST", path: "/build/prune", handler: prune },
];
