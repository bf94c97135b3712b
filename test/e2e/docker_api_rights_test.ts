/** What a policy of the server refuses is refused to docker's clients, too. */
import assert from "node:assert/strict";
import { CLIENTS_READY, startDockerApi } from "./docker_api.ts";
import { e2eTest, startServer } from "./harness.ts";
import { jwt, push, SECRET, TOKEN } from "./rights.ts";

const POLICY = `rules:
  - {subjects: token, actions: "*"}
  - {subjects: watcher, actions: read}
`;

const NEEDS = {
  root: true,
  commands: ["runc", "conmon", "iptables", "skopeo"],
  files: ["/bin/busybox", CLIENTS_READY],
};

e2eTest("docker API: what a policy refuses is refused here, too", NEEDS, async () => {
  await using server = await startServer({
    env: { SVC_AUTH_TOKEN: TOKEN, SVC_JWT_HS256_SECRET: SECRET, SVC_API_POLICY: POLICY },
  });
  await push(server, "base:1");
  const deploy = ["deploy", "base:1", "--name", "web"];
  const { code, stderr } = await server.svc(deploy, { env: { SVC_TOKEN: TOKEN } });
  assert.equal(code, 0, stderr);
  await using api = await startDockerApi(server, { SVC_TOKEN: await jwt("watcher") });
  assert.match(await api.ok("docker28", ["ps"]), /web-0/);
  for (
    const [action, ...args] of [
      ["exec", "diff", "web-0"],
      ["exec", "export", "web-0"],
      ["gc", "builder", "prune", "-f"],
      ["gc", "system", "prune", "-f"],
    ]
  ) {
    const { code, stdout, stderr } = await api.run("docker28", args);
    assert.notEqual(code, 0, `${args.join(" ")}: ${stdout}`);
    assert.match(stderr, new RegExp(`no rule allows.*${action}`), args.join(" "));
  }
});
