/** What the executable does with running workloads on the bare backend: files, streams, stats, pauses. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { e2eTest, type RunOutput, startServer } from "./harness.ts";

const NEEDS = { root: true, commands: ["runc", "conmon", "iptables", "busybox"] };

const DOCKERFILE = `FROM scratch
COPY busybox /bin/busybox
RUN ["/bin/busybox", "--install", "-s", "/bin"]
STOPSIGNAL SIGKILL
CMD ["sh", "-c", "while read line; do echo got $line; done; exec sleep 100000"]
`;

function ok(output: RunOutput): string {
  assert.equal(output.code, 0, `exit code ${output.code}: ${output.stderr}${output.stdout}`);
  return output.stdout;
}

e2eTest("files, streams, stats and pauses of a running workload", NEEDS, async () => {
  await using server = await startServer();
  const folder = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(join(folder, "Dockerfile"), DOCKERFILE);
    await Deno.copyFile("/bin/busybox", join(folder, "busybox"));
    ok(await server.svc(["build", "-t", "work:1", folder]));
    const spec = join(folder, "app.yaml");
    await Deno.writeTextFile(
      spec,
      JSON.stringify({ name: "work", image: "work:1", stdinOpen: true }),
    );
    ok(await server.svc(["deploy", "-f", spec]));

    await Deno.mkdir(join(folder, "in/sub"), { recursive: true });
    await Deno.writeTextFile(join(folder, "in/sub/file"), "there and back");
    ok(await server.svc(["cp", join(folder, "in"), "work:/data"]));
    ok(await server.svc(["cp", "work:/data", join(folder, "out")]));
    assert.equal(await Deno.readTextFile(join(folder, "out/sub/file")), "there and back");
    ok(await server.svc(["stop", "work"]));
    ok(await server.svc(["cp", "work:/data/sub/file", join(folder, "stopped")]));
    assert.equal(await Deno.readTextFile(join(folder, "stopped")), "there and back");
    ok(await server.svc(["start", "work"]));

    const sample = JSON.parse(
      ok(await server.svc(["stats", "work", "--no-stream", "--output", "json"])),
    );
    assert.equal(sample.instance, "work-0");
    assert.ok(sample.memory > 0 && sample.processes >= 1);
    assert.match(ok(await server.svc(["top", "work"])), /sh -c while read line/);
    ok(await server.svc(["pause", "work"]));
    assert.match(ok(await server.svc(["status", "work"])), /paused/);
    ok(await server.svc(["unpause", "work"]));

    const counts = { name: "count", image: "work:1", stdinOpen: true, restart: "no" };
    const command = ["sh", "-c", "wc -c; exit 7"];
    await Deno.writeTextFile(spec, JSON.stringify({ ...counts, command }));
    ok(await server.svc(["deploy", "-f", spec]));
    const { code, stdout } = await server.svc(["attach", "count"], { stdin: "x".repeat(100_000) });
    assert.deepEqual([code, stdout.trim()], [7, "100000"]);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
