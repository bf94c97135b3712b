/** `svc compose down [SERVICE…]`. */
import { remove } from "../../compose/down.ts";
import { Hooks } from "../../compose/hooks.ts";
import { volumeName } from "../../compose/service_storage.ts";
import { present, removeResources } from "../../compose/resources.ts";
import { inOrder, type Needs, needsOf, reversed } from "../../compose/order.ts";
import { removeProvided } from "../../compose/provider.ts";
import { done, failing, type Report, working } from "../../compose/steps.ts";
import { imageOf } from "../../compose/subject.ts";
import { parseReference } from "../../oci/reference.ts";
import type { Invocation } from "../command.ts";
import { releaseHeld } from "../daemon/release.ts";
import type { ProjectInvocation } from "./open_project.ts";
import type { DOWN_OPTIONS } from "./options.ts";
import { openProgress } from "./progress.ts";
import { serverRegistry } from "./server_images.ts";
import { chosen, openSession, orphansOf, secondsOf, type Session } from "./session.ts";

type Call = ProjectInvocation & Invocation<typeof DOWN_OPTIONS>;

/** Names that the project gives its networks or volumes; of others only those without files. */
function isOwn({ name: project, loaded }: Session, kind: "networks" | "volumes") {
  if (!loaded) return (name: string) => name.startsWith(`${project}_`);
  const all = loaded.project[kind];
  const names = new Set(
    Object.keys(all).filter((key) => !all[key].external).map((key) =>
      kind === "volumes" ? volumeName(loaded.project, key) : all[key].name
    ),
  );
  if (kind === "networks") names.add(`${project}_default`);
  return (name: string) =>
    names.has(name) || kind === "volumes" && name.startsWith(`${project}_anonymous_`);
}

/** The services that providers take away, those first that others do not need. */
function providedOf({ loaded }: Session, names: readonly string[]): Needs {
  if (!loaded) return new Map();
  const { services } = loaded.project;
  const chosen = names.length > 0 ? names : Object.keys(services);
  return reversed(needsOf(loaded, chosen.filter((name) => services[name]?.provider)));
}

/** Removes the tags of the project's images from the server's registry. */
async function removeImages(
  call: Call,
  { loaded, connection }: Session,
  { which, report }: { which: string; report: Report },
): Promise<void> {
  if (!loaded) return;
  const registry = await serverRegistry(connection, call);
  for (const [name, service] of Object.entries(loaded.project.services)) {
    const { image, build } = service;
    if (which === "all" ? !image && !build : !build || image) continue;
    const full = imageOf(loaded.project, name, service);
    const { registry: host, repository, tag = "latest", digest } = parseReference(full);
    // One of another registry is not the server's to remove.
    if (host !== undefined) continue;
    const id = `Image ${full}`;
    working(report, id, "Removing");
    const removed = await registry.deleteManifest(repository, digest ?? tag, {
      signal: call.io.signal,
    }).catch(failing(report, [id]));
    if (removed) done(report, id, "Removed");
    else report({ id, status: "No such image", end: "warning" });
  }
}

export async function run(call: Call): Promise<number> {
  const { values, positionals: names, io } = call;
  const session = await openSession(call);
  const { client } = session;
  const orphans = new Set(values.removeOrphans ? [] : orphansOf(session));
  const states = chosen(session, names, { oneOff: names.length === 0 })
    .filter((state) => !orphans.has(state));
  await using progress = openProgress(call);
  const report = progress.step.bind(progress);
  const whole = names.length === 0;
  const networks = whole ? await present(client, "networks", isOwn(session, "networks")) : [];
  const hooks = new Hooks(client, session.loaded);
  const timeoutMs = secondsOf(values.timeout, "--timeout");
  await remove(states, { client, report, timeoutMs, hooks });
  const { target } = session.connection;
  if (whole) await releaseHeld(call, target, { project: session.name });
  else {
    for (const { status: { name } } of states) await releaseHeld(call, target, { name });
  }
  const provided = providedOf(session, names);
  await inOrder(
    provided,
    (name) => removeProvided(name, { loaded: session.loaded!, report, signal: io.signal }),
  );
  if (!whole) return 0;
  if (states.length === 0 && provided.size === 0 && networks.length === 0 && !values.volumes) {
    await io.stderr.write(
      `svc: warning: No resource found to remove for project "${session.name}"\n`,
    );
  }
  await removeResources(client, "networks", networks, report);
  if (values.rmi) await removeImages(call, session, { which: values.rmi, report });
  if (values.volumes) {
    const volumes = await present(client, "volumes", isOwn(session, "volumes"));
    await removeResources(client, "volumes", volumes, report);
  }
  return 0;
}
