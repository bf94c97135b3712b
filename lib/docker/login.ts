/** The caller's login on its way to a daemon that pulls: the header X-Registry-Auth. */
import type { Login } from "../oci/resolver.ts";

/** `host`: the registry's, as in the image's name. */
export function registryAuth(host: string, login: Login): string {
  const fields = "username" in login
    ? { username: login.username, password: login.password }
    : "token" in login
    ? { registrytoken: login.token }
    : { identitytoken: login.identityToken };
  const text = JSON.stringify({ ...fields, serveraddress: host });
  return new TextEncoder().encode(text).toBase64({ alphabet: "base64url" });
}
