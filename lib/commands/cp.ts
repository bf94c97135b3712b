/** `svc cp SRC DST`: files between this machine and an instance. */
import { SvcError } from "../base/errors.ts";
import type { RemotePath } from "../client/files.ts";
import type { Invocation } from "./command.ts";
import { connect } from "./connect.ts";
import { archiveOf, copyIn, type CopyOptions, copyOut, unpackInto } from "./cp/copy.ts";
import { parsePlace, type Place } from "./cp/place.ts";
import type { CP_OPTIONS } from "./workload_options.ts";

const usage = (why: string, help: string) => new SvcError("usage", `Cannot copy: ${why}`, { help });

/** The place in an instance, with the instance that `--instance` names. */
function remote({ at }: Extract<Place, { kind: "remote" }>, instance?: string): RemotePath {
  if (instance === undefined) return at;
  if (at.instance === undefined) return { ...at, instance };
  throw usage("the instance is named twice", "leave out --instance");
}

export async function run(invocation: Invocation<typeof CP_OPTIONS>): Promise<number> {
  const { io, values: { archive, followLink, instance }, positionals } = invocation;
  const [from, to] = positionals.map((text) => parsePlace(text));
  const options: CopyOptions = {
    archive: archive ?? false,
    follow: followLink ?? false,
    signal: io.signal,
    onSkip: (path, why) => io.stderr.write(`svc: warning: ${path} is left out: it is ${why}\n`),
  };
  if (from.kind === "remote") return await out(invocation, remote(from, instance), to, options);
  if (to.kind !== "remote") throw usage("no place is in an instance", "write one as NAME:PATH");
  const at = remote(to, instance);
  const client = await connect(invocation);
  if (from.kind === "local") await copyIn(client, from.path, at, options);
  else await unpackInto(client, at, io.stdin.readable);
  return 0;
}

async function out(
  invocation: Invocation<typeof CP_OPTIONS>,
  from: RemotePath,
  to: Place,
  options: CopyOptions,
): Promise<number> {
  const { io } = invocation;
  if (to.kind === "remote") {
    throw usage("both places are in instances", "copy to this machine first");
  }
  if (to.kind === "pipe") {
    if (io.stdout.isTerminal) {
      throw usage("a terminal cannot show an archive", "send standard output to a file");
    }
    const tar = await archiveOf(await connect(invocation), from, options);
    for await (const bytes of tar) await io.stdout.write(bytes);
    return 0;
  }
  const { skipped } = await copyOut(await connect(invocation), from, to.path, options);
  if (skipped > 0) {
    await io.stderr.write(`svc: warning: ${skipped} devices and pipes are left out\n`);
  }
  return 0;
}
