import assert from "node:assert/strict";
import type { DockerApi } from "../api.ts";
import { auth } from "./auth.ts";
import type { Call } from "../request.ts";

const api = { client: () => ({ server: "http://127.0.0.1:1" }) } as unknown as DockerApi;

const call = (login: unknown) =>
  ({ json: () => Promise.resolve(login), signal: AbortSignal.timeout(60_000) }) as unknown as Call;

Deno.test("docker login: the registry decides whether a login is good", async () => {
  const good = `Basic ${btoa("u:good")}`;
  await using registry = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen: () => {} },
    (request) =>
      request.headers.get("authorization") === good
        ? new Response("{}")
        : new Response("{}", { status: 401, headers: { "www-authenticate": 'Basic realm="r"' } }),
  );
  const serveraddress = `127.0.0.1:${registry.addr.port}`;
  const answer = await auth(call({ username: "u", password: "good", serveraddress }), api);
  assert.deepEqual(answer.json, { Status: "Login Succeeded", IdentityToken: "" });
  await assert.rejects(auth(call({ username: "u", password: "bad", serveraddress }), api), {
    code: "unauthorized",
  });
  await assert.rejects(auth(call({ username: "u", serveraddress }), api), {
    code: "argument_invalid",
  });
});
