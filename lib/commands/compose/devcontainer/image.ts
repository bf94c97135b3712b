/** The image of a dev container: the one it names or builds, with its features installed in layers above. */
import { createHash } from "node:crypto";
import { SvcError } from "../../../base/errors.ts";
import { removeUnpacked } from "../../../base/fs.ts";
import { join, resolve } from "../../../base/path.ts";
import { Files } from "../../../compose/files.ts";
import type { LoadedProject } from "../../../compose/project.ts";
import type { Service } from "../../../compose/service.ts";
import { Registries } from "../../../transfer/registries.ts";
import type { Connection } from "../../connect.ts";
import type { ProjectInvocation } from "../open_project.ts";
import { imageUser } from "../server_images.ts";
import { type Feature, resolveFeatures } from "./features.ts";

/** In single quotes for a shell, on one line of a Dockerfile. */
const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`).replace(/[\r\n]+/g, " ")}'`;

/** In double quotes for ENV: variables of the image count. */
const envQuoted = (text: string) => `"${text.replace(/[\\"]/g, "\\$&").replace(/[\r\n]+/g, " ")}"`;

/** The home of a user, by the shell alone: an image may have few programs. */
const HOME_OF = `home() { while IFS=: read -r name _ _ _ _ home _; do ` +
  `[ "$name" != "$1" ] || { echo "$home"; return; }; done </etc/passwd; }; `;

/** A word of a Dockerfile that a feature or an image chooses: it must not become an instruction of its own. */
function word(text: string, what: string): string {
  if (/^[\w.:@-]+$/.test(text)) return text;
  throw new SvcError("unsupported", `Cannot use ${what} ${JSON.stringify(text.slice(0, 100))}`, {
    help: "it has other characters than letters, digits and .:@_-",
  });
}

export function install(
  feature: Feature,
  index: number,
  users: { container: string; remote: string },
) {
  const at = `/tmp/svc-features/${index}`;
  const variables = Object.entries({
    ...feature.variables,
    _REMOTE_USER: users.remote,
    _CONTAINER_USER: users.container,
  }).map(([key, value]) => `export ${key}=${quoted(value)}; `).join("");
  const env = Object.entries(feature.fields.containerEnv ?? {})
    .map(([key, value]) => [word(key, "the variable"), value]);
  return [
    `COPY --from=svc_feature_${index} . ${at}/`,
    `RUN set -e; ${HOME_OF}${variables}export _REMOTE_USER_HOME="$(home "$_REMOTE_USER")" ` +
    `_CONTAINER_USER_HOME="$(home "$_CONTAINER_USER")"; ` +
    `cd ${at}; chmod +x install.sh; ./install.sh; cd /; rm -rf /tmp/svc-features`,
    ...env.map(([key, value]) => `ENV ${key}=${envQuoted(value)}`),
  ];
}

const lastFrom = (lines: readonly string[]) =>
  lines.findLastIndex((line) => /^\s*FROM\s/i.test(line));

/** The text of a Dockerfile up to its last stage, by a name that the next one can begin with. */
function baseStage(dockerfile: string, target: string | undefined): { text: string; from: string } {
  if (target) return { text: dockerfile, from: target };
  const lines = dockerfile.split("\n");
  const at = lastFrom(lines);
  const [, named] = /\sAS\s+(\S+)\s*$/i.exec(lines[at] ?? "") ?? [];
  if (named) return { text: dockerfile, from: named };
  lines[at] = `${lines[at].trimEnd()} AS svc_base`;
  return { text: lines.join("\n"), from: "svc_base" };
}

/** The last USER of the last stage, as far as the text tells. */
function lastUser(dockerfile: string): string | undefined {
  const lines = dockerfile.split("\n");
  const users = lines.slice(lastFrom(lines) + 1)
    .flatMap((line) => /^\s*USER\s+(\S+)/i.exec(line)?.[1] ?? []);
  const user = users.at(-1);
  return user && !user.includes("$") ? user : undefined;
}

export interface WithFeatures extends AsyncDisposable {
  features: readonly Feature[];
}

function extended(service: Service, features: readonly Feature[]): Partial<Service> {
  const all = <T>(pick: (feature: Feature) => T[] | undefined, own: T[] = []) => [
    ...new Set([...own, ...features.flatMap((one) => pick(one) ?? [])]),
  ];
  const capabilities = all(({ fields }) => fields.capAdd, service.cap_add);
  const options = all(({ fields }) => fields.securityOpt, service.security_opt);
  return {
    ...(features.some(({ fields }) => fields.init) && { init: true }),
    ...(features.some(({ fields }) => fields.privileged) && { privileged: true }),
    ...(capabilities.length > 0 && { cap_add: capabilities }),
    ...(options.length > 0 && { security_opt: options }),
  };
}

/** Puts the features into the service's image. What was fetched is kept until the result is disposed of. */
export async function withFeatures(
  loaded: LoadedProject,
  connection: Connection,
  { io, env }: ProjectInvocation,
): Promise<WithFeatures> {
  const held = new AsyncDisposableStack();
  const dev = loaded.devcontainer;
  const result = { features: [] as Feature[], [Symbol.asyncDispose]: () => held.disposeAsync() };
  if (!dev || Object.keys(dev.fields.features ?? {}).length === 0) return result;
  const scratch = await Deno.makeTempDir({ prefix: "svc-features-" });
  held.defer(() => removeUnpacked(scratch));
  try {
    const { client, way, credentials } = connection;
    const { signal } = io;
    const registries = new Registries({
      ...{ server: client.server, way, env, plainHTTP: [], signal },
      token: () => credentials.token(),
    });
    const features = await resolveFeatures({ dev, registries, scratch, signal });
    const service = loaded.project.services[dev.service];
    const { build } = service;
    const own = !build ? "" : build.dockerfile_inline ??
      await new Files().text(resolve(build.context!, build.dockerfile ?? "Dockerfile"));
    const base = build ? baseStage(own, build.target) : { text: "", from: service.image! };
    const user = dev.fields.containerUser ?? lastUser(own) ??
      (build ? undefined : await imageUser(registries, service.image!, signal)) ?? "root";
    const container = word(user, "the user");
    const users = { container, remote: dev.fields.remoteUser ?? container };
    const text = [
      ...[base.text, `FROM ${base.from}`, "USER root"],
      ...features.flatMap((feature, index) => install(feature, index, users)),
      ...[`USER ${container}`, ""],
    ].join("\n").trimStart();
    const hash = createHash("sha256").update(text);
    for (const { digest } of features) hash.update(digest);
    const empty = join(scratch, "empty");
    if (!build) await Deno.mkdir(empty);
    const { dockerfile: _, target: _target, ...rest } = build ?? { context: empty };
    loaded.project.services[dev.service] = {
      ...{ ...service, ...extended(service, features) },
      // A name of its own for each set of features: another one is built, and replaces the container.
      image: `${loaded.project.name}-${dev.service}:${hash.digest("hex").slice(0, 12)}`,
      build: {
        ...rest,
        dockerfile_inline: text,
        additional_contexts: {
          ...rest.additional_contexts,
          ...Object.fromEntries(
            features.map(({ folder }, index) => [`svc_feature_${index}`, folder]),
          ),
        },
      },
    };
    result.features = features;
    return result;
  } catch (error) {
    await held.disposeAsync();
    throw error;
  }
}
