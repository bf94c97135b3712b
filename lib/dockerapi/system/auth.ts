/** `POST /auth`: `docker login` asks whether a login is good; docker's client keeps it and sends it with each call. */
import { buildInfo } from "../../base/build_info.ts";
import { SvcError } from "../../base/errors.ts";
import { isLoopbackHost } from "../../base/host_port.ts";
import { silent } from "../../base/log.ts";
import type { Credentials } from "../../remote/auth.ts";
import { Transport } from "../../remote/transport.ts";
import type { DockerApi } from "../api.ts";
import type { Bodies } from "../bodies.ts";
import { invalid } from "../errors.ts";
import type { Answer, Call } from "../request.ts";

/** "https://index.docker.io/v1/" is docker.io. */
function hostOf(address = ""): string {
  const host = address.replace(/^https?:\/\//, "").split("/")[0];
  return host === "" || host === "index.docker.io" ? "docker.io" : host;
}

/** Without TLS only where the server itself is reached so, and on this machine. */
function isPlain({ client }: DockerApi, host: string): boolean {
  const server = new URL(client().server);
  return host === server.host ? server.protocol === "http:" : isLoopbackHost(host);
}

function credentialsOf({ username, password, identitytoken }: Bodies["Login"]): Credentials {
  if (identitytoken) return { identityToken: identitytoken };
  if (username && password) return { username, password };
  throw invalid("Cannot log in: there is no user with a password");
}

export async function auth(call: Call, api: DockerApi): Promise<Answer> {
  const login = await call.json("Login");
  const credentials = credentialsOf(login);
  const host = hostOf(login.serveraddress);
  const transport = new Transport({
    host,
    plainHTTP: isPlain(api, host),
    credentials: () => Promise.resolve(credentials),
    userAgent: `svc/${buildInfo().version}`,
    log: silent,
    attempts: 2,
  });
  const response = await transport.request("", { scope: "", signal: call.signal });
  await response.body?.cancel();
  if (response.status === 401 || response.status === 403) {
    throw new SvcError("unauthorized", `Cannot log in to ${host}: incorrect username or password`, {
      help: "",
    });
  }
  if (!response.ok) {
    throw new SvcError(
      "upstream_failed",
      `Cannot log in to ${host}: it answers ${response.status}`,
    );
  }
  return { json: { Status: "Login Succeeded", IdentityToken: "" } };
}
