/** `svc compose --devcontainer`: a devcontainer.json with features, brought up as a project. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { packPath } from "../../lib/commands/cp/pack.ts";
import { ok, Project } from "./compose_scenarios.ts";
import { baseImage, e2eTest, type Server, startServer } from "./harness.ts";

const NEEDS = { root: true, commands: ["runc", "conmon", "iptables", "busybox", "skopeo"] };

const digestOf = (bytes: Uint8Array) =>
  `sha256:${createHash("sha256").update(bytes).digest("hex")}`;

/** Pushes a folder as a feature, as the specification lays it out in a registry. */
async function pushFeature(server: Server, name: string, folder: string): Promise<void> {
  const { signal } = new AbortController();
  const tar = packPath(folder, { signal, onSkip: () => {} });
  const layer = new Uint8Array(await new Response(tar).arrayBuffer());
  const config = new TextEncoder().encode("{}");
  const base = `http://${server.host}/v2/${name}`;
  for (const body of [layer, config]) {
    const url = `${base}/blobs/uploads/?digest=${digestOf(body)}`;
    const answer = await fetch(url, { method: "POST", body });
    assert.equal(answer.status, 201, await answer.text());
  }
  const describe = (mediaType: string, bytes: Uint8Array) => ({
    ...{ mediaType, digest: digestOf(bytes), size: bytes.length },
  });
  const answer = await fetch(`${base}/manifests/1`, {
    method: "PUT",
    headers: { "content-type": "application/vnd.oci.image.manifest.v1+json" },
    body: JSON.stringify({
      schemaVersion: 2,
      mediaType: "application/vnd.oci.image.manifest.v1+json",
      config: describe("application/vnd.devcontainers", config),
      layers: [describe("application/vnd.devcontainers.layer.v1+tar", layer)],
    }),
  });
  assert.equal(answer.status, 201, await answer.text());
}

e2eTest(
  "compose: a dev container with features, and the commands of its life",
  NEEDS,
  async (t) => {
    await using server = await startServer({ env: { SVC_ALLOW_BIND_SOURCES: "/tmp" } });
    await baseImage(server, "base:1");
    await using project = await Project.open(server, { WORD: "said" });
    const write = async (path: string, text: string) => {
      await Deno.mkdir(join(project.folder, path, ".."), { recursive: true });
      await project.write(text, path);
    };
    await write(
      "hello/devcontainer-feature.json",
      `{ "id": "hello", "version": "1.0.0", "options": { "greeting": { "type": "string", "default": "no" } },
       "containerEnv": { "HELLO": "\${PATH}" }, "onCreateCommand": "echo feature >> /log" }`,
    );
    await write(
      "hello/install.sh",
      "#!/bin/sh\necho \"$GREETING $_REMOTE_USER $_REMOTE_USER_HOME '$QUOTE'\" > /greeting\n",
    );
    await pushFeature(server, "features/hello", join(project.folder, "hello"));
    await write(".devcontainer/own/devcontainer-feature.json", '{ "id": "own" }');
    await write(
      ".devcontainer/own/install.sh",
      "#!/bin/sh\ntest -e /greeting && echo own > /own\n",
    );
    await write(
      ".devcontainer/devcontainer.json",
      `{
      "image": "base:1", // of the server
      "features": {
        "${server.host}/features/hello:1": { "greeting": "it's", "quote": "$(id)" },
        "./own": {},
      },
      "workspaceFolder": "/work",
      "workspaceMount": "source=\${localWorkspaceFolder},target=/work,type=bind",
      "containerEnv": { "A": "\${localEnv:WORD}" },
      "remoteEnv": { "B": "\${containerEnv:A}!" },
      "initializeCommand": "echo here >> initialized",
      "onCreateCommand": "echo created $B >> /log",
      "postStartCommand": ["sh", "-c", "echo started >> /log"],
      "postAttachCommand": { "one": "echo attached in $PWD >> /log" }
    }`,
    );
    const compose = (...words: string[]) => project.run("--devcontainer", ...words);
    const log = async () => ok(await project.run("exec", "-T", "devcontainer", "cat", "/log"));

    await t.step("found where nobody asked for it, it runs nothing on this machine", async () => {
      const up = await project.run("up", "-d");
      assert.notEqual(up.code, 0);
      assert.match(up.stderr, /its initializeCommand would run on this machine/);
      await assert.rejects(Deno.stat(join(project.folder, "initialized")));
      const named = await project.run("-p", "other", "up", "-d");
      assert.match(named.stderr, /Cannot find the files of the project other/);
    });

    await t.step("up: features are installed in order, commands run once each", async () => {
      ok(await compose("up", "-d"));
      assert.equal(await Deno.readTextFile(join(project.folder, "initialized")), "here\n");
      assert.equal(await log(), "feature\ncreated said!\nstarted\nattached in /work\n");
      const shown = await project.run(
        "exec",
        "-T",
        "devcontainer",
        "sh",
        "-c",
        "cat /greeting /own; pwd; ls hello; echo $HELLO",
      );
      assert.match(
        ok(shown),
        /^it's root \/root '\$\(id\)'\nown\n\/work\ndevcontainer-feature\.json\ninstall\.sh\n\/.*bin/,
      );
    });

    await t.step("up again: nothing is built, made or run but what follows an attach", async () => {
      const again = await compose("up", "-d");
      ok(again);
      assert.match(again.stderr, /Container .*devcontainer-1 {2}Running/);
      assert.equal(
        await log(),
        "feature\ncreated said!\nstarted\nattached in /work\nattached in /work\n",
      );
      ok(await project.run("restart"));
      ok(await compose("up", "-d"));
      assert.match(await log(), /attached in \/work\nstarted\nattached in \/work\n$/);
    });

    await t.step("a command that fails is an error, and runs again the next time", async () => {
      ok(await compose("down"));
      const file = join(project.folder, ".devcontainer/devcontainer.json");
      const text = await Deno.readTextFile(file);
      await Deno.writeTextFile(file, text.replace("echo created $B", "echo no way; exit 4"));
      const up = await compose("up", "-d");
      assert.equal(up.code, 1);
      assert.match(up.stderr, /onCreateCommand of container .* exited with 4: no way/);
      await Deno.writeTextFile(file, text);
      ok(await compose("up", "-d"));
      assert.match(await log(), /created said!/);
      ok(await compose("down"));
      assert.deepEqual(await project.states(), {});
    });
  },
);
