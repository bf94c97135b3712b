/** What is not an svc server is told as that, whatever it answers and whatever it was asked for. */
import assert from "node:assert/strict";
import { svcFake } from "../../test/fixtures/cli.ts";

const page = "<!DOCTYPE html><html><body>It works!</body></html>";
const html = (status: number) =>
  new Response(page, { status, headers: { "content-type": "text/html; charset=utf-8" } });

const ANSWERS: Record<string, () => Response> = {
  "a web page": () => html(200),
  "a web page for what is missing": () => html(404),
  "a login page": () => new Response(null, { status: 302, headers: { location: "/login" } }),
  "plain text": () => new Response("OK"),
  "an empty object": () => Response.json({}),
  "an empty list of its own": () => Response.json([{ id: 1 }]),
  "a list of other things with names": () => Response.json([{ name: "a", id: 1 }]),
  "other JSON": () => Response.json({ status: "ok", message: "hello" }),
  "null": () => Response.json(null),
  "a number": () => Response.json(5),
  "an error of its own": () => Response.json({ error: "no such route" }, { status: 404 }),
  "another registry": () =>
    Response.json({ errors: [{ code: "NOT_FOUND", message: "no" }] }, {
      status: 404,
      headers: { "docker-distribution-api-version": "registry/2.0" },
    }),
  "another registry that wants a login": () =>
    Response.json({ errors: [{ code: "UNAUTHORIZED", message: "authentication required" }] }, {
      status: 401,
      headers: { "www-authenticate": 'Bearer realm="https://auth.example/token"' },
    }),
};

const COMMANDS: [args: string[], stdin?: string][] = [
  [["info"]],
  [["ps"]],
  [["status", "web"]],
  [["logs", "web"]],
  [["stop", "web"]],
  [["stats", "--no-stream", "web"]],
  [["top", "web"]],
  [["volume", "ls"]],
  [["network", "inspect", "n"]],
  [["health"]],
  [["rm", "web"]],
  [["gc"]],
  [["storage", "usage"]],
  [["activity"]],
  [["auth", "keys", "list"]],
  [["login", "--token", "t"]],
  [["deploy", "-f", "-"], "name: web\nimage: a\n"],
];

for (const [what, answer] of Object.entries(ANSWERS)) {
  Deno.test(`a server that answers with ${what} is none of ours`, async () => {
    for (const [args, stdin] of COMMANDS) {
      const { code, stdout, stderr } = await svcFake(args, { handler: answer, stdin });
      const shown = `${args.join(" ")}: ${code}\n${stdout}${stderr}`;
      assert.equal(code, 1, shown);
      assert.match(stderr, /not as an svc server does/, shown);
      assert.match(stderr, /check the URL/, shown);
      assert.equal(stdout, "", shown);
    }
  });
}
