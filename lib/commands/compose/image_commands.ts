/** `svc compose build|pull|push [SERVICE…]`. */
import { asSvcError } from "../../base/errors.ts";
import type { Connection } from "../../client/connection.ts";
import { selected } from "../../compose/order.ts";
import type { Report } from "../../compose/steps.ts";
import { imageOf } from "../../compose/subject.ts";
import { parseReference } from "../../oci/reference.ts";
import type { Invocation } from "../command.ts";
import { openConnection } from "../connect.ts";
import { errorLines } from "../dispatch.ts";
import { PUSH_OPTIONS as PUSH } from "../transfer/options.ts";
import { delegate } from "./delegate.ts";
import { prepare } from "./bring_up.ts";
import { buildImages, policyOf, pullImage } from "./images.ts";
import { layersReporter } from "./layers.ts";
import { openProject, type ProjectInvocation } from "./open_project.ts";
import type { BUILD_OPTIONS, PULL_OPTIONS, PUSH_OPTIONS } from "./options.ts";
import { openProgress, quietly } from "./progress.ts";

export const build = {
  async run(call: ProjectInvocation & Invocation<typeof BUILD_OPTIONS>): Promise<number> {
    const { values, positionals, io } = call;
    const files = await openProject(call, call.positionals);
    const connection = await openConnection(call);
    await using prepared = await prepare(files, connection, call);
    const { loaded } = prepared;
    const names = selected(loaded, positionals, !values.withDependencies)
      .filter((name) => loaded.project.services[name].build);
    if (names.length === 0) {
      await io.stderr.write("No services to build\n");
      return 0;
    }
    await buildImages(call, connection, {
      ...{ loaded, names },
      flags: {
        ...{ noCache: values.noCache, pull: values.pull, quiet: values.quiet },
        ...{ buildArgs: values.buildArgs, ssh: values.ssh },
        ...{ provenance: values.provenance, sbom: values.sbom },
      },
    });
    return 0;
  },
};

/** Does the work for each service's image. A failure is told at once, and counts unless it may be ignored. */
async function eachImage(
  call: ProjectInvocation,
  { services, ignores, word: [begin, end], quiet }: {
    services: readonly string[];
    ignores: boolean;
    word: readonly [string, string];
    quiet: boolean;
  },
  work: (name: string, report: Report) => Promise<void>,
): Promise<number> {
  let code = 0;
  await using progress = openProgress(quietly(call, quiet), begin);
  for (const name of services) {
    progress.step({ id: name, text: begin, status: "" });
    try {
      await work(name, progress.step.bind(progress));
      progress.step({ id: name, text: end, status: "", end: "done" });
    } catch (error) {
      call.io.signal.throwIfAborted();
      const known = asSvcError(error);
      progress.step({ id: name, text: "Error", status: known.message, end: "error" });
      await call.io.stderr.write(errorLines(known));
      if (!ignores) code ||= known.exit;
    }
  }
  return code;
}

export const pull = {
  async run(call: ProjectInvocation & Invocation<typeof PULL_OPTIONS>): Promise<number> {
    const { values, positionals } = call;
    const loaded = await openProject(call, call.positionals);
    const { services } = loaded.project;
    const names = selected(loaded, positionals, !values.includeDeps).filter((name) => {
      const { image, build } = services[name];
      const policy = policyOf(values.policy, services[name]);
      return image && policy !== "never" && policy !== "build" &&
        !(build && values.ignoreBuildable);
    });
    const connection = await openConnection(call);
    const quiet = values.quiet ?? false;
    return await eachImage(call, {
      ...{ services: names, quiet, ignores: values.ignoreFailures ?? false },
      word: ["Pulling", "Pulled"],
    }, (name, report) =>
      pullImage(call, connection, {
        image: services[name].image!,
        reporter: layersReporter(name, report),
      }));
  },
};

async function pushImage(
  call: ProjectInvocation,
  connection: Connection,
  image: string,
): Promise<void> {
  const { registry, repository, tag } = parseReference(image);
  // What has no registry in its name is in the server's, where it was built.
  if (registry === undefined) return;
  const own = `${repository}${tag ? `:${tag}` : ""}`;
  await delegate(call, {
    module: await import("../push.ts"),
    options: PUSH,
    args: ["--quiet", "--", own, image],
    connection,
    silent: true,
  });
}

export const push = {
  async run(call: ProjectInvocation & Invocation<typeof PUSH_OPTIONS>): Promise<number> {
    const { values, positionals } = call;
    const loaded = await openProject(call, call.positionals);
    const { services } = loaded.project;
    const names = selected(loaded, positionals, !values.includeDeps)
      .filter((name) => services[name].build && services[name].image);
    const connection = await openConnection(call);
    return await eachImage(call, {
      ...{ services: names, quiet: values.quiet ?? false },
      ignores: values.ignoreFailures ?? false,
      word: ["Pushing", "Pushed"],
    }, (name) => pushImage(call, connection, imageOf(loaded.project, name, services[name])));
  },
};
