/** Who may look at workloads, read their files, attach to them and change what runs. */
import assert from "node:assert/strict";
import { SignJWT } from "jose";
import { start } from "../auth/testing.ts";

const SECRET = "hs256-secret-of-the-workload-rights-0123456789";
const ACTIONS = ["read", "logs", "exec", "deploy", "push"] as const;

const POLICY = `rules:\n${
  ACTIONS.map((action) => `  - {subjects: ${action}er, actions: ${action}}\n`).join("")
}`;

const token = (subject: string) =>
  new SignJWT({ sub: subject, scope: "api" }).setProtectedHeader({ alg: "HS256" })
    .setExpirationTime("10m").sign(new TextEncoder().encode(SECRET));

const WEB = "/deployments/web";
/** deploy implies exec, exec implies read. */
const READ = ["read", "exec", "deploy"];
const EXEC = ["exec", "deploy"];
const DEPLOY = ["deploy"];

const ROUTES: [method: string, path: string, allowed: string[]][] = [
  ["GET", `${WEB}/stats`, READ],
  ["GET", "/events", READ],
  ["GET", "/volumes", READ],
  ["GET", "/volumes/data", READ],
  ["GET", "/networks", READ],
  ["GET", "/networks/front", READ],
  ["GET", `${WEB}/spec`, DEPLOY],
  ["GET", `${WEB}/top`, EXEC],
  ["GET", `${WEB}/attach`, EXEC],
  ["GET", `${WEB}/archive?path=/etc/shadow`, EXEC],
  ["HEAD", `${WEB}/archive?path=/etc/shadow`, EXEC],
  ["PUT", `${WEB}/archive?path=/etc`, EXEC],
  ["POST", `${WEB}/signal?signal=KILL`, DEPLOY],
  ["POST", `${WEB}/pause`, DEPLOY],
  ["POST", `${WEB}/update`, DEPLOY],
  ["POST", `${WEB}/unpause`, DEPLOY],
  ["DELETE", "/volumes/data", DEPLOY],
  ["DELETE", "/networks/front", DEPLOY],
];

Deno.test("workloads: each route refuses whoever lacks its action, and nobody gets in without a credential", async () => {
  await using server = await start({ SVC_JWT_HS256_SECRET: SECRET, SVC_API_POLICY: POLICY });
  for (const [method, path, allowed] of ROUTES) {
    const url = `/.svc/v1${path}`;
    assert.equal(await server.status(method, url), 401, `${method} ${path}`);
    for (const action of ACTIONS) {
      const status = await server.status(method, url, { token: await token(`${action}er`) });
      // The fake backend can do nothing: who may ask is told that.
      assert.equal(
        status !== 403,
        allowed.includes(action),
        `${action}: ${method} ${path}: ${status}`,
      );
    }
  }
});
