/** What a server says of its host at its start, in `/info` and to `svc doctor`. */
import assert from "node:assert/strict";
import { e2eTest, startServer } from "./harness.ts";

const NEEDS = {
  root: true,
  commands: ["runc", "conmon", "iptables", "unshare"],
  files: ["/usr/lib/cni/bridge"],
};

e2eTest("without a daemon, a host that can run containers itself is told how", NEEDS, async () => {
  await using server = await startServer({
    env: { SVC_DEPLOY_BACKEND: "", DOCKER_HOST: "unix:///nonexistent/docker.sock" },
  });
  const { deploy, build } = await (await fetch(`${server.url}/.svc/v1/info`)).json();
  assert.equal(deploy.available, false);
  assert.match(
    deploy.reason,
    /there is no such socket; .*this host has what SVC_DEPLOY_BACKEND=bare needs$/,
  );
  assert.deepEqual(build, { at: "here" });
  await server.logged(/"cannot deploy yet".*this host has what SVC_DEPLOY_BACKEND=bare needs/);
  const { stdout, code } = await server.svc(["doctor"]);
  assert.equal(code, 0, stdout);
  assert(stdout.includes(`warning  deployments: ${deploy.reason}\n`), stdout);
  assert.match(stdout, /^ok +builds: the server runs them$/m);
});

e2eTest("a server that can deploy and build has nothing to warn of", NEEDS, async () => {
  await using server = await startServer();
  const { deploy, build } = await (await fetch(`${server.url}/.svc/v1/info`)).json();
  assert.deepEqual([deploy.available, build.at], [true, "here"]);
  const { stdout } = await server.svc(["doctor"]);
  assert.match(stdout, /^ok +deployments: they run on bare$/m);
  assert(!/"level":"warn"/.test(server.log()), server.log());
});
