/** The images of a project's services: built, pulled and pushed as the files say. */
import { join } from "../../base/path.ts";
import { SvcError } from "../../base/errors.ts";
import type { Connection } from "../../client/connection.ts";
import { imageOf } from "../../compose/subject.ts";
import type { LoadedProject } from "../../compose/project.ts";
import type { Build, Service } from "../../compose/service.ts";
import { refusal } from "../../compose/refusal.ts";
import { parseReference } from "../../oci/reference.ts";
import { BUILD_OPTIONS } from "../options.ts";
import type { Reporter } from "../transfer/events.ts";
import { PULL_OPTIONS } from "../transfer/options.ts";
import { delegate } from "./delegate.ts";
import type { ProjectInvocation } from "./open_project.ts";
import { layersReporter } from "./layers.ts";
import { openProgress, quietly } from "./progress.ts";
import { hubName, serverRegistry } from "./server_images.ts";

export interface BuildFlags {
  noCache?: boolean;
  pull?: boolean;
  quiet?: boolean;
  buildArgs?: readonly string[];
  ssh?: readonly string[];
  provenance?: string;
  sbom?: string;
}

const ELSEWHERE = /^(https?|ssh|git):\/\/|^git@|^github\.com\//;

/** What of a build section svc does not do. */
const REFUSED = ["isolation", "privileged", "shm_size", "ulimits"] as const;

const pairs = (flag: string, map: Record<string, string | null> = {}) =>
  Object.entries(map).flatMap(([key, value]) => [flag, value === null ? key : `${key}=${value}`]);

const each = (flag: string, values: readonly string[] = []) =>
  values.flatMap((value) => [flag, value]);

/** Secrets of a build as flags: a file's, or a variable's. */
function secretFlags(loaded: LoadedProject, name: string, { secrets = [] }: Build): string[] {
  return secrets.flatMap(({ source = "", target = source }, index) => {
    const secret = loaded.project.secrets[source];
    if (secret?.file) return ["--secret", `id=${target},src=${secret.file}`];
    if (secret?.environment) return ["--secret", `id=${target},env=${secret.environment}`];
    throw refusal(
      loaded,
      ["services", name, "build", "secrets", index],
      `the secret ${source} has neither a file nor a variable`,
    );
  });
}

/** "false" is what nobody asks for. */
const attested = (flag: string, value: string | undefined) =>
  value === undefined || value === "false" ? [] : [`--${flag}=${value}`];

/** The words of `svc build` for a service. `file`: the Dockerfile, where it is written in the project's file. */
function buildWords(
  loaded: LoadedProject,
  name: string,
  flags: BuildFlags,
  file: string | undefined,
): string[] {
  const service = loaded.project.services[name];
  const build = service.build!;
  const context = build.context ?? loaded.directory;
  for (const field of REFUSED) {
    const value = build[field];
    if (value === undefined || typeof value === "object" && Object.keys(value).length === 0) {
      continue;
    }
    throw refusal(loaded, ["services", name, "build", field], "svc builds all steps alike");
  }
  const contexts = Object.entries(build.additional_contexts ?? {}).map(([key, value]) => {
    const [, other] = /^service:(.+)$/.exec(value) ?? [];
    const of = other === undefined ? undefined : loaded.project.services[other];
    return `${key}=${of ? `docker-image://${imageOf(loaded.project, other!, of)}` : value}`;
  });
  const dockerfile = file ??
    (build.dockerfile === undefined || ELSEWHERE.test(context)
      ? build.dockerfile
      : join(context, build.dockerfile));
  return [
    ...each("--tag", [imageOf(loaded.project, name, service), ...build.tags ?? []]),
    ...(dockerfile === undefined ? [] : ["--file", dockerfile]),
    ...(build.target ? ["--target", build.target] : []),
    ...(build.platforms?.length ? ["--platform", build.platforms.join(",")] : []),
    ...pairs("--build-arg", build.args),
    ...each("--build-arg", flags.buildArgs),
    ...pairs("--label", build.labels),
    ...each("--build-context", contexts),
    ...each("--cache-from", build.cache_from),
    ...each("--cache-to", build.cache_to),
    ...each("--add-host", build.extra_hosts?.map((text) => text.replace("=", ":"))),
    ...each("--allow", build.entitlements),
    ...(build.network ? ["--network", build.network] : []),
    ...secretFlags(loaded, name, build),
    ...each("--ssh", build.ssh?.map(({ id, path }) => path ? `${id}=${path}` : id)),
    ...each("--ssh", flags.ssh),
    ...(build.no_cache || flags.noCache ? ["--no-cache"] : []),
    ...(build.pull || flags.pull ? ["--pull"] : []),
    ...attested("provenance", flags.provenance ?? build.provenance),
    ...attested("sbom", flags.sbom ?? build.sbom),
    ...(flags.quiet ? ["--quiet"] : []),
    "--",
    context,
  ];
}

/** Builds the images of these services, those first that others are built from. */
export async function buildImages(
  invocation: ProjectInvocation,
  connection: Connection,
  { loaded, names, flags = {} }: {
    loaded: LoadedProject;
    names: readonly string[];
    flags?: BuildFlags;
  },
): Promise<void> {
  const module = await import("../build.ts");
  const { values } = invocation;
  for (const name of orderedForBuild(loaded, names)) {
    const { dockerfile_inline: inline } = loaded.project.services[name].build!;
    await using held = new AsyncDisposableStack();
    let file: string | undefined;
    if (inline !== undefined) {
      const folder = await Deno.makeTempDir({ prefix: "svc-compose-" });
      held.defer(() => Deno.remove(folder, { recursive: true }));
      file = join(folder, "Dockerfile");
      await Deno.writeTextFile(file, inline);
    }
    const quiet = flags.quiet || values.composeProgress === "quiet";
    const code = await delegate(invocation, {
      module,
      options: BUILD_OPTIONS,
      args: buildWords(loaded, name, { ...flags, quiet }, file),
      connection,
      // Standard output is the services'; that they are built is told below.
      silent: true,
    });
    if (code !== 0) throw new SvcError("build_failed", `Cannot build the image of ${name}`);
    // What is built is told as docker compose tells it, once its lines are out of the way.
    await using progress = openProgress(invocation, "Building");
    progress.step({ id: name, status: "Built", end: "done" });
  }
}

/** Services whose image is another one's context come after it. */
function orderedForBuild({ project }: LoadedProject, names: readonly string[]): string[] {
  const ordered: string[] = [];
  const visit = (name: string, above: readonly string[]) => {
    if (ordered.includes(name) || above.includes(name)) return;
    const contexts = Object.values(project.services[name]?.build?.additional_contexts ?? {});
    for (const value of contexts) {
      const [, other] = /^service:(.+)$/.exec(value) ?? [];
      if (other !== undefined && names.includes(other)) visit(other, [...above, name]);
    }
    ordered.push(name);
  };
  for (const name of names) visit(name, []);
  return ordered;
}

/** The digest of an image in the server's registry; undefined: it has none of that name. */
export async function digestOf(
  connection: Connection,
  invocation: ProjectInvocation,
  image: string,
): Promise<string | undefined> {
  const { registry, repository, tag, digest } = parseReference(image);
  // One of another registry is the server's to find.
  if (registry !== undefined) return undefined;
  const own = await serverRegistry(connection, invocation);
  const { signal } = invocation.io;
  return (await own.resolve(repository, digest ?? tag ?? "latest", { signal }))?.descriptor.digest;
}

export function policyOf(given: string | undefined, { pull_policy: own = "missing" }: Service) {
  const policy = given === undefined || given === "policy" ? own : given;
  return policy === "if_not_present" ? "missing" : policy;
}

/** Before services are brought up: builds and pulls what they need. */
export async function prepareImages(
  invocation: ProjectInvocation,
  connection: Connection,
  { loaded, names, build, noBuild, pull, quiet, quietBuild = quiet }: {
    loaded: LoadedProject;
    names: readonly string[];
    build: boolean;
    noBuild: boolean;
    pull?: string;
    quiet?: boolean;
    /** Default: `quiet`. */
    quietBuild?: boolean;
  },
): Promise<void> {
  const { services } = loaded.project;
  const built: string[] = [];
  for (const name of names) {
    const service = services[name];
    const policy = policyOf(pull, service);
    const image = imageOf(loaded.project, name, service);
    if (service.build && !noBuild) {
      const missing = async () => await digestOf(connection, invocation, image) === undefined;
      if (build || policy === "build" || await missing()) built.push(name);
    } else if (policy === "always" && service.image) {
      await using progress = openProgress(quietly(invocation, quiet), "Pulling");
      progress.step({ id: name, text: "Pulling", status: "" });
      const reporter = layersReporter(name, progress.step.bind(progress));
      await pullImage(invocation, connection, { image, reporter });
      progress.step({ id: name, text: "Pulled", status: "", end: "done" });
    }
  }
  if (built.length > 0) {
    await buildImages(invocation, connection, {
      ...{ loaded, names: built },
      flags: { quiet: quietBuild },
    });
  }
}

/**
 * Has the server's registry fetch an image without a registry in its name, from Docker Hub as docker has it. Of any
 * other the server itself asks its registry, with each deploy.
 */
export async function pullImage(
  invocation: ProjectInvocation,
  connection: Connection,
  { image, reporter }: { image: string; reporter: Reporter },
): Promise<void> {
  const source = hubName(image);
  if (source === undefined) return;
  const { run } = await import("../pull.ts");
  await delegate(invocation, {
    module: { run: (pull) => run(pull, reporter) },
    options: PULL_OPTIONS,
    args: ["--quiet", "--", source, image],
    connection,
    silent: true,
  });
}
