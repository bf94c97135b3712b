/** SVC_BARE_SHIM with the executable: the server is killed, a workload is killed, and the workload is back. */
import assert from "node:assert/strict";
import { eventually } from "../waits.ts";
import { baseImage, e2eTest, freePort, startServer } from "./harness.ts";

const NEEDS = {
  root: true,
  commands: ["runc", "conmon", "flock", "iptables", "busybox", "skopeo"],
};

e2eTest("a workload is back by its policy while no server runs", NEEDS, async () => {
  await using server = await startServer({ env: { SVC_BARE_SHIM: "1" } });
  await baseImage(server, "base:1");
  const port = freePort();
  const deployed = await server.svc(["deploy", "base:1", "--name", "web", "-p", `${port}:8080`]);
  assert.equal(deployed.code, 0, deployed.stderr);
  const page = () => fetch(`http://127.0.0.1:${port}/`).then((answer) => answer.text(), () => "");
  const instance = async () => {
    const answer = await fetch(`${server.url}/.svc/v1/deployments/web`);
    return (await answer.json()).instances[0] as { pid: number; state: string; restarts: number };
  };
  await eventually("an answer", async () => await page() === "hello from busybox\n");
  const { pid } = await instance();
  await server.kill9();
  Deno.kill(pid, "SIGKILL");
  const gone = () => Deno.stat(`/proc/${pid}`).then(() => false, () => true);
  await eventually(
    "its end, and another answer",
    async () => await gone() && await page() === "hello from busybox\n",
  );
  await server.restart();
  const after = await eventually("it is known to run", async () => {
    const found = await instance();
    return found.state === "running" && found;
  });
  assert.notEqual(after.pid, pid);
  assert.equal(after.restarts, 1);
});
