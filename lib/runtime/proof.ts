/** Whether an OCI runtime works on this host: tested by running a container. */
import { join } from "node:path";
import { SvcError } from "../base/errors.ts";
import { readJson, writeFileAtomic } from "../base/fs.ts";
import { locate } from "../base/locate.ts";
import { run } from "../base/process.ts";
import { encodeDocument } from "./document.ts";
import { type HostFacts, hostFacts } from "./host_facts.ts";
import type { Runtime } from "./runtime.ts";
import { runtimeSpec } from "./spec.ts";

/** The test program's exit code: no other program ends with it for these arguments. */
const PROOF = 42;

/** exit(42), by ELF machine number. */
const CODE: Record<string, [machine: number, code: number[]]> = {
  x86_64: [62, [0xb8, 60, 0, 0, 0, 0xbf, PROOF, 0, 0, 0, 0x0f, 0x05]],
  aarch64: [183, [0x40, 0x05, 0x80, 0xd2, 0xa8, 0x0b, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4]],
};

/** A static program: the smallest ELF file that exits with 42. */
function program(): Uint8Array {
  const [machine, code] = CODE[Deno.build.arch];
  const start = 64 + 56;
  const bytes = new Uint8Array(start + code.length);
  const view = new DataView(bytes.buffer);
  const base = 0x400000n;
  bytes.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]);
  view.setUint16(16, 2, true); // an executable
  view.setUint16(18, machine, true);
  view.setUint32(20, 1, true);
  view.setBigUint64(24, base + BigInt(start), true); // entry
  view.setBigUint64(32, 64n, true); // program headers begin
  [64, 56, 1].forEach((size, n) => view.setUint16(52 + 2 * n, size, true));
  view.setUint32(64, 1, true); // one segment to load, readable and executable
  view.setUint32(68, 5, true);
  view.setBigUint64(80, base, true);
  view.setBigUint64(88, base, true);
  view.setBigUint64(96, BigInt(bytes.length), true);
  view.setBigUint64(104, BigInt(bytes.length), true);
  view.setBigUint64(112, 0x1000n, true);
  bytes.set(code, start);
  return bytes;
}

/**
 * Runs a container that exits at once, below `folder`, where programs may be executed. Throws
 * `prerequisite_missing` with the runtime's message where that fails.
 */
export async function proveRuntime(
  runtime: Runtime,
  folder: string,
  { facts, signal }: { facts?: HostFacts; signal?: AbortSignal } = {},
): Promise<void> {
  const bundle = await Deno.makeTempDir({ dir: folder, prefix: "proof-" });
  try {
    const rootfs = join(bundle, "rootfs");
    await Deno.mkdir(rootfs, { mode: 0o755 });
    await Deno.writeFile(join(rootfs, "proof"), program(), { mode: 0o755 });
    const options = { rootfs, args: ["/proof"], env: [], cwd: "/", network: "none" as const };
    const { spec } = runtimeSpec(options, facts ?? await hostFacts());
    await Deno.writeTextFile(join(bundle, "config.json"), encodeDocument(spec));
    const id = `svc-${crypto.randomUUID().slice(0, 13)}`;
    const [binary, args] = runtime.command("run", "--bundle", bundle, id);
    const { code, stderr, stdout } = await run(binary, args, { signal });
    if (code === PROOF) return;
    await runtime.delete(id, { force: true }).catch(() => {/* it was never made */});
    const words = (stderr.trim() || stdout.trim()).split("\n").slice(-2).join(" ").slice(0, 400);
    throw new SvcError(
      "prerequisite_missing",
      `Cannot use OCI runtime ${runtime.binary}: it ran no container on this host ` +
        `(exit code ${code}${words ? `: ${words}` : ""})`,
      { help: "set SVC_RUNTIME to a runtime that runs here, such as runc, or mend the host" },
    );
  } finally {
    await Deno.remove(bundle, { recursive: true });
  }
}

export interface ProofPlace {
  /** Where programs may be executed: the data directory. */
  folder: string;
  /** Where the result is kept until a reboot: the folder of running state. */
  runDir: string;
}

/**
 * Runs {@linkcode proveRuntime} once per boot for each runtime and version of its file. Without the privileges
 * for any container the test is skipped, since a failure would say nothing about the runtime.
 */
export async function proven(runtime: Runtime, { folder, runDir }: ProofPlace): Promise<void> {
  const facts = await hostFacts();
  if (!facts.capabilities.has("CAP_SYS_ADMIN")) return;
  const path = await Deno.realPath(await locate(runtime.binary) ?? runtime.binary);
  const { mtime, size, ino } = await Deno.stat(path);
  const [, args] = runtime.command("run");
  const how = args.filter((arg) => arg.startsWith("--") && arg !== "--root");
  const key = [path, mtime?.getTime(), size, ino, facts.userNamespace, ...how].join(" ");
  const record = join(runDir, "proven.json");
  const known = await readJson<string[]>(record).catch(() => undefined) ?? [];
  if (known.includes(key)) return;
  await proveRuntime(runtime, folder, { facts });
  const kept = [...known.filter((other) => !other.startsWith(`${path} `)), key];
  // Where the record cannot be written, the next start tests again.
  await writeFileAtomic(record, JSON.stringify(kept), { mode: 0o600 }).catch(() => {});
}
