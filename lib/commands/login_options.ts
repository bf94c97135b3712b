/** Options of `svc login`, `svc logout` and `svc token`. */
import type { AnyOption } from "../config/load.ts";

const section = "Options";

export const LOGIN_OPTIONS = [
  {
    key: "withToken",
    kind: "string",
    flag: "token",
    placeholder: "TOKEN",
    help: "Log in with this token and keep it in the context; - reads it from standard input.",
    section,
  },
  {
    key: "identityFile",
    kind: "string",
    flag: "identity-file",
    placeholder: "PATH",
    help: "Log in with this SSH key, and let the context use it from now on.",
    section,
  },
  {
    key: "keyFingerprint",
    kind: "string",
    flag: "key-fingerprint",
    placeholder: "SHA256:…",
    help:
      "Log in with this key of the SSH agent; with --identity-file, the fingerprint that the file's " +
      "key must have.",
    section,
  },
  {
    key: "scope",
    kind: "string",
    flag: "scope",
    placeholder: "SCOPE",
    help: "Scope of the key's sessions.",
    section,
  },
  {
    key: "ttl",
    kind: "string",
    flag: "ttl",
    placeholder: "DURATION",
    help: "Lifetime of the key's sessions, at most 24h.",
    section,
  },
  {
    key: "docker",
    kind: "bool",
    flag: "docker",
    help: "Also store the login for docker, podman and tools that read their files.",
    section,
  },
] as const satisfies readonly AnyOption[];

export const LOGOUT_OPTIONS = [
  {
    key: "all",
    kind: "bool",
    flag: "all",
    help: "Remove the stored short-lived credentials of all servers.",
    section,
  },
  {
    key: "docker",
    kind: "bool",
    flag: "docker",
    help: "Also remove the server's login from docker and podman.",
    section,
  },
] as const satisfies readonly AnyOption[];

export const TOKEN_OPTIONS = [
  {
    key: "scope",
    kind: "string",
    flag: "scope",
    placeholder: "SCOPE",
    help: "What the token may be used for; it never allows more than the caller may do.",
    section,
  },
  {
    key: "ttl",
    kind: "string",
    flag: "ttl",
    placeholder: "DURATION",
    help: "Lifetime, for a context with key-auth; at most 24h.",
    section,
  },
] as const satisfies readonly AnyOption[];
