import assert from "node:assert/strict";
import { join } from "node:path";
import { parseDeploySpec } from "../../../lib/api/deploy_spec_parse.ts";
import { silent } from "../../../lib/base/log.ts";
import { layoutImages } from "../../../test/peers/layout_images.ts";
import { createIncusBackend } from "./open.ts";

/** A daemon of that kind, to the backend; gives what a deploy is refused with, and what the daemon was asked. */
async function refusedBy(server: Record<string, unknown>) {
  const folder = await Deno.makeTempDir({ prefix: "svc-incus-" });
  const asked: string[] = [];
  const socket = join(folder, "unix.socket");
  await using _daemon = Deno.serve({ path: socket, onListen: () => {} }, (request) => {
    asked.push(`${request.method} ${new URL(request.url).pathname}`);
    return Response.json({ type: "sync", metadata: server });
  });
  try {
    await using backend = await createIncusBackend({
      ...{ socket, project: "default", pool: "default", insecure: [], log: silent },
      dataDir: join(folder, "data"),
      images: { ...layoutImages(folder), resolve: () => assert.fail("an image was looked for") },
      config: { allowBindSources: [], allowPrivileged: [], pidsLimit: 0 },
    });
    const error = await backend.apply(parseDeploySpec("name: web\nimage: base:1\n"))
      .then(() => assert.fail("it was deployed"), (error) => error);
    assert.equal(await backend.status("web"), undefined);
    return { error, asked: new Set(asked) };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const ENVIRONMENT = { environment: { server_version: "6.2" } };

Deno.test("an Incus before 6.3 is refused up front, and asked to change nothing", async () => {
  const { error, asked } = await refusedBy({
    ...{ api_extensions: ["instances"], auth: "trusted" },
    ...ENVIRONMENT,
  });
  assert.equal(error.code, "unsupported");
  assert.match(error.message, /6\.2 runs no OCI images/);
  assert.match(error.help, /Incus 6\.3 or later/);
  assert.deepEqual([...asked].filter((call) => !call.startsWith("GET ")), []);
});

Deno.test("a daemon that does not trust the server's user is told apart", async () => {
  const { error } = await refusedBy({
    ...{ api_extensions: ["instance_oci"], auth: "untrusted" },
    ...ENVIRONMENT,
  });
  assert.equal(error.code, "denied");
  assert.match(error.help, /incus-admin/);
});
