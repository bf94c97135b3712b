/** Options of `svc login`, `svc logout` and `svc token`. */
import type { AnyOption } from "../config/load.ts";
import { optionRows } from "../config/option_rows.ts";

const { flag, text } = optionRows("Options");

export const LOGIN_OPTIONS = [
  text(
    "withToken",
    "token",
    "TOKEN",
    "Log in with this token and keep it in the context; - reads it from standard input.",
  ),
  text(
    "identityFile",
    "identity-file",
    "PATH",
    "Log in with this SSH key, and let the context use it from now on.",
  ),
  text(
    "keyFingerprint",
    "key-fingerprint",
    "SHA256:…",
    "Log in with this key of the SSH agent; with --identity-file, the fingerprint that the " +
      "file's key must have.",
  ),
  text("scope", "scope", "SCOPE", "Scope of the key's sessions."),
  text("ttl", "ttl", "DURATION", "Lifetime of the key's sessions, at most 24h."),
  flag(
    "docker",
    "docker",
    "Also store the login for docker, podman and tools that read their files.",
  ),
] as const satisfies readonly AnyOption[];

export const LOGOUT_OPTIONS = [
  flag("all", "all", "Remove the stored short-lived credentials of all servers."),
  flag("docker", "docker", "Also remove the server's login from docker and podman."),
] as const satisfies readonly AnyOption[];

export const TOKEN_OPTIONS = [
  text(
    "scope",
    "scope",
    "SCOPE",
    "What the token may be used for; it never allows more than the caller may do.",
  ),
  text("ttl", "ttl", "DURATION", "Lifetime, for a context with key-auth; at most 24h."),
] as const satisfies readonly AnyOption[];
