/** What the tests of workloads' files share. */
import assert from "node:assert/strict";
import type { InstanceOptions } from "../../lib/deploy/caps.ts";
import type { TarHeader } from "../../lib/oci/tar.ts";
import { readTar } from "../../lib/oci/tar_read.ts";
import { type TarFields, TarWriter, writeTar } from "../../lib/oci/tar_write.ts";
import type { DeployBackendUnderTest, Need, Test } from "./deploy_suite.ts";
import { execute, quickSpec, shell } from "./deploy_tools.ts";

export const text = (value: string) => new TextEncoder().encode(value);

export type Member = TarFields & { body?: Uint8Array };

/** An archive that ends within the second of its files, which has this path. */
export function brokenOff(path: string): Uint8Array[] {
  const writer = new TarWriter();
  return [
    writer.header({ path: "first", type: "file", size: 1 }),
    text("1"),
    writer.data(text("1")),
    writer.header({ path, type: "file", size: 100_000 }),
    new Uint8Array(5000),
  ];
}

/** What an archive holds, by path: its header and its content. */
export async function members(
  tar: ReadableStream<Uint8Array>,
): Promise<Map<string, { header: TarHeader; content: string }>> {
  const found = new Map<string, { header: TarHeader; content: string }>();
  for await (const { header, body } of readTar(tar)) {
    const content = await new Response(body as ReadableStream<Uint8Array<ArrayBuffer>>).text();
    found.set(header.path, { header, content });
  }
  return found;
}

export function fileTools(test: Test, under: DeployBackendUnderTest) {
  const { backend, image } = under;
  const withName = (
    title: string,
    name: string,
    needs: readonly Need[],
    fn: (name: string) => Promise<void>,
  ) =>
    test(title, ["files", "exec", ...needs], async () => {
      try {
        await fn(name);
      } finally {
        await backend().delete(name);
      }
    });
  const files = () => backend().caps.files!;
  const see = async (name: string, script: string) => {
    const { code, stdout, stderr } = await execute(backend(), name, { command: shell(script) });
    assert.equal(code, 0, stderr);
    return stdout.trim();
  };
  const put = (name: string, path: string, list: Member[], options?: InstanceOptions) =>
    files().write(name, path, writeTar(list), options);
  const get = async (name: string, path: string, options?: InstanceOptions) => {
    const { stat, tar } = await files().read(name, path, options);
    return { stat, all: await members(tar) };
  };
  const running = (name: string, more: Record<string, unknown> = {}) =>
    backend().apply(quickSpec(name, image, { command: ["sleep", "100000"], ...more }));
  return { backend, withName, files, see, put, get, running };
}
