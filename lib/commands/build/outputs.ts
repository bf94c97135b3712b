/** The client's side of a build's outputs: what it asks the server for, and where it writes the archives. */
import { type AttestSpec, parseAttest, parseAttestFlag } from "../../api/build_attest.ts";
import { type OutputSpec, parseOutput } from "../../api/build_output.ts";
import type { BuildOutput, BuildResult } from "../../api/build.ts";
import { SvcError, systemCode } from "../../base/errors.ts";
import { temporaryName } from "../../base/fs.ts";
import type { Io } from "../../base/terminal.ts";
import type { Client } from "../../client/client.ts";
import type { Invocation } from "../command.ts";
import { OUTPUT_MODES, type OutputMode } from "../options.ts";
import type { RESULT_OPTIONS } from "./options.ts";

type AllValues = Invocation<typeof RESULT_OPTIONS>["values"];
type Values = Pick<AllValues, "outputs" | "load" | "push">;

/** Programs that take an image on their standard input with `load`. */
const ENGINES = ["docker", "podman"];

const isMode = (text: string): text is OutputMode => OUTPUT_MODES.some((mode) => mode === text);

/** The output mode that `--output` names, as with every other command; the last value counts. */
export function modeOf(values: Pick<Values, "outputs">): OutputMode | undefined {
  return values.outputs?.filter(isMode).at(-1);
}

/**
 * The outputs to ask the server for; none: the image is stored under its names. Throws `argument_invalid` for
 * an output that the client cannot deliver.
 */
export function outputsOf(values: Values, io: Io): OutputSpec[] {
  const outputs = (values.outputs ?? []).filter((text) => !isMode(text)).map(parseOutput);
  if (values.load) outputs.push(parseOutput("type=docker"));
  if (values.push === false) {
    const others = outputs.filter(({ type }) => type !== "image");
    return others.length > 0 ? others : [parseOutput("type=cacheonly")];
  }
  if (values.push && outputs.length > 0 && !outputs.some(({ type }) => type === "image")) {
    outputs.push(parseOutput("type=image"));
  }
  for (const output of outputs) {
    const { type } = output;
    if (type === "local" && output.dest === undefined) {
      throw new SvcError("argument_invalid", "Cannot write the result: type=local has no dest", {
        help: "write type=local,dest=FOLDER, or --output FOLDER",
      });
    }
    if ((type === "tar" || type === "oci") && output.dest === undefined) output.dest = "-";
    if (output.dest === "-" && io.stdout.isTerminal) {
      throw new SvcError(
        "argument_invalid",
        "Cannot write an archive: standard output is a terminal",
        {
          help: "redirect it, or name a file with dest=",
        },
      );
    }
  }
  if (outputs.filter(({ dest }) => dest === "-").length > 1) {
    throw new SvcError(
      "argument_invalid",
      "Cannot write two archives to standard output: it takes one",
      { help: "name files with dest=" },
    );
  }
  return outputs;
}

/**
 * The attestations: the last value of each type counts, and `false` removes the type. Throws
 * `argument_invalid`.
 */
export function attestationsOf(
  { attest = [], provenance, sbom }: Pick<AllValues, "attest" | "provenance" | "sbom">,
): AttestSpec[] {
  const specs = new Map<AttestSpec["type"], AttestSpec>();
  for (const text of attest) {
    const spec = parseAttest(text);
    if (spec) specs.set(spec.type, spec);
  }
  for (const [type, text] of [["provenance", provenance], ["sbom", sbom]] as const) {
    if (text === undefined) continue;
    const spec = parseAttestFlag(type, text);
    if (spec) specs.set(type, spec);
    else specs.delete(type);
  }
  return [...specs.values()];
}

/** True where an archive is written to standard output. */
export const takesStdout = (outputs: readonly OutputSpec[]): boolean =>
  outputs.some(({ dest }) => dest === "-");

const REASONS: Record<string, string> = {
  EACCES: "permission denied",
  EPERM: "permission denied",
  EROFS: "the file system is read-only",
  ENOENT: "there is no such folder",
  ENOTDIR: "a part of the path is not a folder",
  EISDIR: "it is a folder",
  EEXIST: "it is in the way",
  ENOSPC: "no space is left",
};

/** Turns a file's error into one that names the path; other failures pass unchanged. */
export async function writing<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    const why = REASONS[systemCode(cause) ?? ""];
    if (!why || cause instanceof SvcError) throw cause;
    throw new SvcError("argument_invalid", `Cannot write ${path}: ${why}`, { cause });
  }
}

async function open(client: Client, { id }: BuildOutput): Promise<ReadableStream<Uint8Array>> {
  const response = await client.request("GET /build/outputs/{id}", {
    params: { id },
    accept: "application/x-tar",
  });
  return response.body!;
}

async function toFile(stream: ReadableStream<Uint8Array>, path: string): Promise<void> {
  await writing(path, async () => {
    if (await Deno.stat(path).then((info) => info.isDirectory, () => false)) {
      throw new SvcError("argument_invalid", `Cannot write ${path}: it is a folder`);
    }
    const partial = temporaryName(path);
    try {
      await Deno.writeFile(partial, stream, { createNew: true });
      await Deno.rename(partial, path);
    } catch (error) {
      await Deno.remove(partial).catch(() => {/* never made */});
      throw error;
    }
  });
}

/** Pipes the archive into the first engine that is installed. */
async function load(stream: ReadableStream<Uint8Array>, io: Io): Promise<void> {
  for (const engine of ENGINES) {
    let child: Deno.ChildProcess;
    try {
      child = new Deno.Command(engine, {
        args: ["load"],
        stdin: "piped",
        stdout: "piped",
        stderr: "piped",
        signal: io.signal,
      }).spawn();
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) continue;
      throw error;
    }
    const said = child.output();
    // If the engine stopped reading, its standard error says why (below).
    await stream.pipeTo(child.stdin).catch(() => {});
    const { success, stdout, stderr } = await said;
    const words = new TextDecoder().decode(success ? stdout : stderr).trim();
    if (success) return void await io.stderr.write(words + "\n");
    throw new SvcError("upstream_failed", `Cannot load the image: ${engine} load: ${words}`, {
      help: `see whether \`${engine} info\` works`,
    });
  }
  await stream.cancel();
  throw new SvcError(
    "prerequisite_missing",
    `Cannot load the image: there is no ${ENGINES.join(" or ")}`,
    {
      help: "write an archive with --output type=docker,dest=FILE",
    },
  );
}

/** Downloads the archives of the result and writes them to their destinations. */
export async function deliver(
  client: Client,
  outputs: readonly OutputSpec[],
  result: BuildResult,
  io: Io,
): Promise<void> {
  for (const output of result.outputs ?? []) {
    const { type, dest, folder } = outputs[output.index];
    const stream = await open(client, output);
    if (dest === undefined) await load(stream, io);
    else if (dest === "-") { for await (const chunk of stream) await io.stdout.write(chunk); }
    else if (type === "local" || folder) {
      const { extractArchive } = await import("./extract.ts");
      const { files, skipped } = await writing(
        dest,
        () => extractArchive(stream, dest, { signal: io.signal }),
      );
      const left = skipped > 0 ? `; ${skipped} device nodes and pipes left out` : "";
      await io.stderr.write(`${files} file${files === 1 ? "" : "s"} written to ${dest}${left}\n`);
    } else await toFile(stream, dest);
  }
}

/** What `--metadata-file` gets, in buildx' names. */
export function metadataOf(result: BuildResult): Record<string, unknown> {
  const { digest, imageId, mediaType, descriptorSize: size, names, platforms } = result;
  return {
    ...(imageId !== "" && !platforms && { "containerimage.config.digest": imageId }),
    ...(digest !== "" && {
      "containerimage.descriptor": { mediaType, digest, size },
      "containerimage.digest": digest,
    }),
    ...(names.length > 0 && { "image.name": names.join(",") }),
    ...(platforms && { "svc.platforms": platforms }),
  };
}
