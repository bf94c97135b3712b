/** Keys of AWS's token service: the real SDK against a service of the test's own. */
import assert from "node:assert/strict";
import { openSources } from "./kinds.ts";

const ENDS = "2040-01-02T03:04:05Z";

/** Answers as the service does (its query protocol), and refuses the role "no". */
function tokenService() {
  const asked: { form: URLSearchParams; signed: string }[] = [];
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    const form = new URLSearchParams(await request.text());
    asked.push({ form, signed: request.headers.get("authorization") ?? "" });
    const action = form.get("Action");
    const headers = { "content-type": "text/xml" };
    if (form.get("RoleArn")?.endsWith("/no")) {
      return new Response(
        "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code>" +
          "<Message>not for the secret one</Message></Error></ErrorResponse>",
        { status: 403, headers },
      );
    }
    const keys = "<AccessKeyId>ASIATEST</AccessKeyId><SecretAccessKey>made</SecretAccessKey>" +
      `<SessionToken>token</SessionToken><Expiration>${ENDS}</Expiration>`;
    return new Response(
      `<${action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><${action}Result>` +
        `<Credentials>${keys}</Credentials></${action}Result></${action}Response>`,
      { headers },
    );
  });
  const url = `http://127.0.0.1:${server.addr.port}`;
  return { asked, url, [Symbol.asyncDispose]: () => server.shutdown() };
}

Deno.test({
  name: "aws-sts: a role, and a session of the login itself, by the caller's own login",
  // The SDK keeps its connections for a moment.
  sanitizeOps: false,
  sanitizeResources: false,
  async fn() {
    await using service = tokenService();
    const login = {
      AWS_ENDPOINT_URL_STS: service.url,
      AWS_ACCESS_KEY_ID: "AKCALLER",
      AWS_SECRET_ACCESS_KEY: "of-the-caller",
      AWS_REGION: "eu-west-1",
    };
    const before = Object.keys(login).map((name) => [name, Deno.env.get(name)] as const);
    for (const [name, value] of Object.entries(login)) Deno.env.set(name, value);
    const told: string[] = [];
    const get = async (config: Record<string, string>) => {
      const around = { env: {}, folder: "/", notice: (text: string) => void told.push(text) };
      const sources = openSources([{ name: "c", backend: "aws-sts", config }], around);
      return await sources.get("c")!.get(new AbortController().signal);
    };
    try {
      const made = await get({ roleArn: "arn:aws:iam::1:role/dev", durationSeconds: "900" });
      assert.deepEqual(made.values, {
        ...{ accessKeyId: "ASIATEST", secretAccessKey: "made", sessionToken: "token" },
      });
      assert.equal(made.expiration?.toISOString(), new Date(ENDS).toISOString());
      const [{ form, signed }] = service.asked;
      assert.deepEqual(
        ["Action", "RoleArn", "RoleSessionName", "DurationSeconds"].map((name) => form.get(name)),
        ["AssumeRole", "arn:aws:iam::1:role/dev", "svc-c", "900"],
      );
      assert.match(signed, /^AWS4-HMAC-SHA256 Credential=AKCALLER\/\d+\/eu-west-1\/sts\//);
      await get({});
      assert.equal(service.asked[1].form.get("Action"), "GetSessionToken");
      await assert.rejects(get({ roleArn: "arn:aws:iam::1:role/no" }), {
        message: "Cannot make credential c: AWS says AccessDenied",
      });
      assert.match(told.join(), /not for the secret one/, "the caller alone sees its words");
      await assert.rejects(get({ durationSeconds: "60" }), /durationSeconds is not 900 to 129600/);
    } finally {
      for (const [name, value] of before) {
        if (value === undefined) Deno.env.delete(name);
        else Deno.env.set(name, value);
      }
    }
  },
});
