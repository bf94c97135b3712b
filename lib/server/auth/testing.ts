/** What the tests of authentication share: a server with the routes of its options, and some to try. */
import assert from "node:assert/strict";
import type { Action } from "../../api/route.ts";
import { createLogger } from "../../base/log.ts";
import { loadServerSettings } from "../../config/server_options.ts";
import { AUTH_READS, openServerAuth } from "../auth.ts";
import type { Route } from "../route.ts";
import { startTestServer } from "../testing.ts";

export interface TestServer extends AsyncDisposable {
  base: string;
  dataDir: string;
  /** Everything that was logged. */
  log(): string;
  /** Waits until the record would say this of somebody. */
  noted(entry: { path: string; status: number; subject: string; about?: string }): Promise<void>;
  call(method: string, path: string, options?: CallOptions): Promise<Response>;
  status(method: string, path: string, options?: CallOptions): Promise<number>;
}

export interface CallOptions {
  token?: string;
  basic?: string;
  body?: BodyInit;
}

const row = (method: Route["method"], path: string, action: Action): Route => ({
  method,
  path,
  action,
  help: "",
  handler: ({ identity }) => Response.json({ subject: identity.subject }),
});

/** A server of these variables. */
export async function start(env: Record<string, string>, dataDir?: string): Promise<TestServer> {
  const folder = dataDir ?? await Deno.makeTempDir({ prefix: "svc-auth-" });
  const remove = async () => {
    if (dataDir === undefined) await Deno.remove(folder, { recursive: true });
  };
  const lines: string[] = [];
  const log = createLogger({ level: "debug", format: "json", write: (line) => lines.push(line) });
  const config = loadServerSettings([], env).settings.of(...AUTH_READS);
  const auth = await openServerAuth({ config, dataDir: folder, log }).catch(async (error) => {
    await remove();
    throw error;
  });
  const notes: string[] = [];
  const server = await startTestServer({
    deps: { access: auth.access },
    log,
    note: ({ context: { identity: { subject }, about }, route: { path }, status }) =>
      void notes.push(JSON.stringify({ path, status, subject, about })),
    routes: [
      ...auth.routes,
      row("GET", "/v2/", "pull"),
      row("GET", "/v2/{name+}/manifests/{reference}", "pull"),
      row("PUT", "/v2/{name+}/manifests/{reference}", "push"),
      row("POST", "/x/deploy", "deploy"),
    ],
  });
  const call: TestServer["call"] = (method, path, { token, basic, body } = {}) => {
    const authorization = token ? `Bearer ${token}` : basic && `Basic ${btoa(basic)}`;
    return fetch(server.base + path, {
      method,
      body,
      headers: authorization ? { authorization } : {},
    });
  };
  return {
    base: server.base,
    dataDir: folder,
    log: () => lines.join("\n"),
    async noted({ path, status, subject, about }) {
      const wanted = JSON.stringify({ path, status, subject, about });
      for (const until = Date.now() + 60_000; !notes.includes(wanted);) {
        assert(Date.now() < until, `${wanted} is not among\n${notes.join("\n")}`);
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
    },
    call,
    status: async (...args) => {
      const response = await call(...args);
      await response.body?.cancel();
      return response.status;
    },
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      await auth[Symbol.asyncDispose]();
      await remove();
    },
  };
}

export const INFO = "/.svc/v1/info";
