/** `svc compose images`: the images of containers, in docker compose's columns. */
import { renderTable } from "../../base/table.ts";
import { containersOf, type ServiceState } from "../../compose/state.ts";
import type { Invocation } from "../command.ts";
import { ago, decimalSize } from "./human.ts";
import type { ProjectInvocation } from "./open_project.ts";
import type { IMAGES_OPTIONS } from "./options.ts";
import { type ImageFacts, imageFacts, imageNames, serverRegistry } from "./server_images.ts";
import { chosen, openSession } from "./session.ts";

function rowsOf(
  states: readonly ServiceState[],
  facts: ReadonlyMap<string, ImageFacts>,
  nameOf: (image: string) => string,
) {
  return states.flatMap((state) =>
    containersOf(state).map(({ name }) => {
      const { imageDigest = "" } = state.status;
      const image = nameOf(state.status.image);
      const [, repository = image, tag = "latest"] = /^(.*?)(?::([^:/@]+))?(?:@.*)?$/.exec(image) ??
        [];
      const { platform = "", size, created } = facts.get(state.status.name) ?? {};
      return {
        ...{ ID: imageDigest, ContainerName: name, Repository: repository, Tag: tag },
        ...{ Platform: platform, Size: size ?? 0, Created: created },
      };
    })
  ).sort((a, b) => a.ContainerName < b.ContainerName ? -1 : 1);
}

const HEADERS = ["CONTAINER", "REPOSITORY", "TAG", "PLATFORM", "IMAGE ID", "SIZE", "CREATED"];

export const images = {
  async run(call: ProjectInvocation & Invocation<typeof IMAGES_OPTIONS>): Promise<number> {
    const { values, positionals, io } = call;
    const session = await openSession(call);
    const states = chosen(session, positionals);
    const facts = new Map<string, ImageFacts>();
    const nameOf = await imageNames(session.client);
    if (!values.quiet && states.length > 0) {
      const registry = await serverRegistry(session.connection, call);
      await Promise.all(states.map(async ({ status: { name, image, imageDigest: digest } }) => {
        // A caller who may look at deployments may be kept from pulling: the cells stay empty.
        const found = await imageFacts(registry, nameOf(image), { digest, signal: io.signal })
          .catch(() => undefined);
        if (found) facts.set(name, found);
      }));
      io.signal.throwIfAborted();
    }
    const rows = rowsOf(states, facts, nameOf);
    const text = values.quiet
      ? [...new Set(rows.map(({ ID }) => `${ID}\n`))].join("")
      : values.format === "json" || values.output === "json"
      ? JSON.stringify(rows) + "\n"
      : renderTable(
        HEADERS,
        rows.map(({ ContainerName, Repository, Tag, Platform, ID, Size, Created }) => [
          ...[ContainerName, Repository, Tag, Platform],
          ID.replace(/^sha256:/, "").slice(0, 12),
          Size === 0 ? "" : decimalSize(Size),
          Created === undefined || !(Date.parse(Created) > 0) ? "N/A" : ago(Created),
        ]),
        { narrowest: 20 },
      );
    await io.stdout.write(text);
    return 0;
  },
};
