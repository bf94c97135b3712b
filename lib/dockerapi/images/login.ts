/** The logins that docker's clients send with a call: in memory for that call alone, for the hosts they name. */
import type { Credentials } from "../../remote/auth.ts";
import { invalid } from "../errors.ts";

interface AuthConfig {
  username?: string;
  password?: string;
  auth?: string;
  identitytoken?: string;
  registrytoken?: string;
}

function parse(header: string): unknown {
  try {
    // Clients differ in the alphabet and in the padding.
    const text = header.replaceAll("-", "+").replaceAll("_", "/").replace(/=+$/, "");
    return JSON.parse(new TextDecoder().decode(Uint8Array.fromBase64(text)));
  } catch {
    // The parser's message would quote a password.
    throw invalid("Cannot read the login of the call: it is malformed");
  }
}

function credentialsOf(value: unknown): Credentials | undefined {
  const auth = Object(value) as AuthConfig;
  const text = (part: unknown) => typeof part === "string" && part !== "" ? part : undefined;
  const identityToken = text(auth.identitytoken);
  if (identityToken) return { identityToken };
  const token = text(auth.registrytoken);
  if (token) return { token };
  const [username, password] = [text(auth.username), text(auth.password)];
  if (username && password) return { username, password };
  const packed = text(auth.auth);
  if (!packed) return undefined;
  const [, name, rest] = /^([^:]+):(.+)$/s.exec(atob(packed)) ?? [];
  return name && rest ? { username: name, password: rest } : undefined;
}

/** `X-Registry-Auth`. Undefined where there is no login in it. Throws `argument_invalid`. */
export function registryAuth(header: string | undefined): Credentials | undefined {
  return header ? credentialsOf(parse(header)) : undefined;
}

const HUB = ["https://index.docker.io/v1/", "index.docker.io", "registry-1.docker.io"];

/** `X-Registry-Config`: logins by host, of a build. Throws `argument_invalid`. */
export function registryConfig(header: string | undefined): Map<string, Credentials> {
  const logins = new Map<string, Credentials>();
  if (!header) return logins;
  for (const [key, value] of Object.entries(Object(parse(header)))) {
    const login = credentialsOf(value);
    const host = key.replace(/^https?:\/\//, "").split("/")[0];
    if (login) logins.set(HUB.includes(key) || HUB.includes(host) ? "docker.io" : host, login);
  }
  return logins;
}
