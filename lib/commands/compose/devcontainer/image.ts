/** The image of a dev container: what it says, and its features, installed in layers above. */
import { createHash } from "node:crypto";
import { SvcError } from "../../../base/errors.ts";
import { removeUnpacked } from "../../../base/fs.ts";
import { join } from "../../../base/path.ts";
import type { Connection } from "../../../client/connection.ts";
import {
  entriesOf,
  entryOf,
  METADATA_LABEL,
  raisedRights,
  withEntries,
} from "../../../compose/devcontainer/metadata.ts";
import type { Devcontainer } from "../../../compose/devcontainer/read.ts";
import { LABELS } from "../../../compose/names.ts";
import type { LoadedProject } from "../../../compose/project.ts";
import type { Service } from "../../../compose/service.ts";
import { policyOf } from "../images.ts";
import { loadFrom, loadOptionsOf, type ProjectInvocation } from "../open_project.ts";
import { registriesOf } from "../server_images.ts";
import { type Base, baseOf } from "./base.ts";
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

/** The service with its features in layers above its image. */
function installed(
  { loaded, dev, base, features, scratch }: {
    loaded: LoadedProject;
    dev: Devcontainer;
    base: Base;
    features: readonly Feature[];
    scratch: string;
  },
): Service {
  const service = loaded.project.services[dev.service];
  const { containerUser, remoteUser } = dev.fields;
  const container = word(containerUser || base.config.User || "root", "the user");
  const users = { container, remote: remoteUser || container };
  const text = [
    ...[base.text, `FROM ${base.from}`, "USER root"],
    ...features.flatMap((feature, index) => install(feature, index, users)),
    ...[`USER ${container}`, ""],
  ].join("\n").trimStart();
  const hash = createHash("sha256").update(text);
  for (const { digest } of features) hash.update(digest);
  const { dockerfile: _, target: _target, ...rest } = service.build ??
    { context: join(scratch, "empty") };
  const folders = features.map(({ folder }, index) => [`svc_feature_${index}`, folder]);
  return {
    ...service,
    // A name of its own for each set of features: another one is built, and replaces the container.
    image: `${loaded.project.name}-${dev.service}:${hash.digest("hex").slice(0, 12)}`,
    build: {
      ...rest,
      dockerfile_inline: text,
      additional_contexts: { ...rest.additional_contexts, ...Object.fromEntries(folders) },
    },
  };
}

/** The words that a service runs without the dev container's own. */
function processOf({ entrypoint, command }: Service, { Entrypoint, Cmd }: Base["config"]) {
  const own = entrypoint ? [] : Cmd;
  return [...entrypoint ?? Entrypoint ?? [], ...command ?? own ?? []];
}

/**
 * The project with what the dev container's image and features say of it, and with the features in its image. What
 * was fetched is kept until the result is disposed of.
 */
export async function prepareDevcontainer(
  loaded: LoadedProject,
  own: Devcontainer,
  { connection, call, pull }: { connection: Connection; call: ProjectInvocation; pull?: string },
): Promise<{ loaded: LoadedProject } & AsyncDisposable> {
  await using held = new AsyncDisposableStack();
  const warnings: Promise<void>[] = [];
  const warn = (text: string) =>
    void warnings.push(call.io.stderr.write(`svc: warning: ${text}\n`));
  const { signal } = call.io;
  const scratch = await Deno.makeTempDir({ prefix: "svc-features-" });
  held.defer(() => removeUnpacked(scratch));
  await Deno.mkdir(join(scratch, "empty"));
  const registries = await registriesOf(connection, call);
  const features = await resolveFeatures({ dev: own, registries, scratch, signal });
  const service = loaded.project.services[own.service];
  const fresh = policyOf(pull, service) === "always";
  const base = await baseOf(service, { registries, fresh, signal, warn });
  const label = base.config.Labels?.[METADATA_LABEL];
  const entries = [
    ...(label ? entriesOf(label, own, `the label ${METADATA_LABEL} of ${base.image}`) : []),
    ...features.map(({ fields, reference }) => entryOf(fields, own, `the feature ${reference}`)),
  ];
  const dev = { ...withEntries(own, entries), process: processOf(service, base.config) };
  const raised = raisedRights(dev, own);
  if (raised.length > 0) {
    warn(`${own.service} gets more rights than ${own.file} asks for: ${raised.join(", ")}`);
  }
  const project = await loadFrom(loadOptionsOf(call), dev);
  const { services } = project.project;
  if (features.length > 0) {
    services[dev.service] = installed({ loaded: project, dev, base, features, scratch });
  }
  const user = dev.fields.remoteUser || dev.fields.containerUser;
  const one = services[dev.service];
  if (user) one.labels = { ...one.labels, [LABELS.remoteUser]: user };
  await Promise.all(warnings);
  const kept = held.move();
  return { loaded: project, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}
