/** SPEC "Authentication", and the flight record of "Limits". */
import { SvcError } from "../../base/errors.ts";
import { absolutePath, notNegative, oneOf, positive, urlOf, visible } from "../checks.ts";
import { optionTable } from "../table.ts";

const section = "Authentication";

export const TLS = optionTable([
  {
    key: "tlsCert",
    kind: "string",
    flag: "tls-cert",
    env: ["SVC_TLS_CERT"],
    placeholder: "FILE",
    section: "TLS",
    help: "PEM certificate file, with its chain; with --tls-key the server serves HTTPS. The TLS " +
      "files are read again when they change, without dropping connections.",
  },
  {
    key: "tlsKey",
    kind: "string",
    flag: "tls-key",
    env: ["SVC_TLS_KEY"],
    placeholder: "FILE",
    section: "TLS",
    help: "PEM private-key file.",
  },
  {
    key: "tlsClientCa",
    kind: "string",
    flag: "tls-client-ca",
    env: ["SVC_TLS_CLIENT_CA"],
    placeholder: "FILE",
    section: "TLS",
    help:
      "PEM CA bundle that verifies client certificates. The CommonName is the caller's identity. A " +
      "client may present no certificate; one that is presented must verify. Enables authentication.",
  },
], checkTls);

/** Throws `config_invalid` where only a part of the HTTPS settings is given. */
function checkTls(
  { tlsCert, tlsKey, tlsClientCa }: { tlsCert?: string; tlsKey?: string; tlsClientCa?: string },
): void {
  const refused = (given: string, lacking: string) =>
    new SvcError("config_invalid", `Cannot use ${given}: ${lacking} is not set`, {
      help: "HTTPS needs a certificate and its key; client certificates need HTTPS",
    });
  if (tlsCert !== undefined && tlsKey === undefined) throw refused("--tls-cert", "--tls-key");
  if (tlsKey !== undefined && tlsCert === undefined) throw refused("--tls-key", "--tls-cert");
  if (tlsClientCa !== undefined && tlsCert === undefined) {
    throw refused("--tls-client-ca", "--tls-cert");
  }
}

export const AUTH = optionTable([
  {
    key: "authToken",
    kind: "string",
    env: ["SVC_AUTH_TOKEN"],
    section,
    help:
      "Static bearer token accepted as a credential, with every scope; its identity is `token`.",
    check: visible,
  },
  {
    key: "authTokenFile",
    kind: "string",
    env: ["SVC_AUTH_TOKEN_FILE"],
    placeholder: "FILE",
    section,
    help:
      "File with the token; read where SVC_AUTH_TOKEN is not set. A missing file is created with a " +
      "random token, readable by its owner only, unless another credential is configured.",
    check: absolutePath,
  },
  {
    key: "installationSecret",
    kind: "string",
    env: ["SVC_INSTALLATION_SECRET"],
    defaultText: "generated in <data-dir>/installation.key",
    section,
    help:
      "Internal signing key of the server's own short-lived tokens; the same on every replica. " +
      "It does not enable authentication by itself.",
  },
  {
    key: "authKeystore",
    kind: "string",
    env: ["SVC_AUTH_KEYSTORE"],
    defaultText: "file where SSH keys are configured or the file exists",
    section,
    help:
      "Enrolment of SSH keys. file: enrolled keys are kept in <data-dir>/auth/authorized_keys, which " +
      "enables authentication. none: only the keys of SVC_AUTHORIZED_KEYS count.",
    check: oneOf(["file", "none"]),
  },
  {
    key: "authorizedKeys",
    kind: "string",
    env: ["SVC_AUTHORIZED_KEYS"],
    section,
    help:
      "OpenSSH authorized_keys entries, one a line, whose keys may open sessions; the comment is " +
      "the identity. They cannot be changed through the API.",
  },
  {
    key: "authKeyMaxAge",
    kind: "duration",
    env: ["SVC_AUTH_KEY_MAX_AGE"],
    default: 2160 * 3_600_000,
    placeholder: "DURATION",
    section,
    help:
      "Longest lifetime of an SSH key that is enrolled through the API, and the lifetime of one that " +
      "asks for none. Its end is kept in the key's line of <data-dir>/auth/authorized_keys.",
    check: positive,
  },
  {
    key: "jwtIssuer",
    kind: "string",
    env: ["SVC_JWT_ISSUER"],
    section,
    help: "Expected `iss` claim of JWTs.",
  },
  {
    key: "jwtAudience",
    kind: "string",
    env: ["SVC_JWT_AUDIENCE"],
    section,
    help: "Expected `aud` claim of JWTs; must match a client's `kube-auth.audience`.",
  },
  {
    key: "jwtHs256Secret",
    kind: "string",
    env: ["SVC_JWT_HS256_SECRET"],
    section,
    help: "Shared secret that verifies HS256-signed JWTs. Their scopes are in the claim `scope`.",
  },
  {
    key: "jwtPublicKey",
    kind: "string",
    env: ["SVC_JWT_PUBLIC_KEY"],
    placeholder: "FILE",
    section,
    help:
      "PEM public key that verifies JWTs: RS256 with an RSA key, ES256 with a P-256 key. Their scopes " +
      "are in the claim `scope`.",
  },
  {
    key: "jwtJwksFile",
    kind: "string",
    env: ["SVC_JWT_JWKS_FILE"],
    placeholder: "FILE",
    section,
    help: "Local JWKS document; read again when it changes. Its tokens need SVC_JWT_SCOPE_MAP or " +
      "SVC_JWT_DEFAULT_SCOPE.",
  },
  {
    key: "jwtJwksUrl",
    kind: "string",
    env: ["SVC_JWT_JWKS_URL"],
    placeholder: "URL",
    section,
    help:
      "Remote JWKS endpoint; its tokens need what those of SVC_JWT_JWKS_FILE need. The set is fetched " +
      "every ten minutes while it is used, and at most twice a minute for unknown keys. When a fetch " +
      "fails, the last good set stays in use.",
    check: urlOf("https", "http"),
  },
  {
    key: "jwtScopeMap",
    kind: "string",
    env: ["SVC_JWT_SCOPE_MAP"],
    placeholder: "FILE",
    section,
    help: "YAML or JSON rules that turn a third-party issuer's claims into scopes. The page " +
      "Authentication has its format.",
  },
  {
    key: "jwtDefaultScope",
    kind: "string",
    env: ["SVC_JWT_DEFAULT_SCOPE"],
    section,
    help: "Scope of JWTs that no rule of the scope map matched, such as api.",
  },
  {
    key: "jwtAllowNoExpiry",
    kind: "bool",
    env: ["SVC_JWT_ALLOW_NO_EXPIRY"],
    default: false,
    section,
    help: "Accepts JWTs without `exp`: they are valid until the key is changed. Only for " +
      "SVC_JWT_HS256_SECRET and SVC_JWT_PUBLIC_KEY; tokens of a key set always need `exp`.",
  },
  {
    key: "apiPolicy",
    kind: "string",
    env: ["SVC_API_POLICY"],
    section,
    help: "Which identity may do what: a file of YAML or JSON, or the document itself where the " +
      "value begins with { or has several lines. The page Authentication has its format.",
  },
  {
    key: "workloadApi",
    kind: "string",
    env: ["SVC_WORKLOAD_API"],
    choices: ["refused", "open"],
    default: "refused",
    section,
    help:
      "For a server without authentication. refused: requests from the networks of its own builds and " +
      "workloads may pull images, and nothing else. open: they may do what all other callers may. With " +
      "authentication they need a credential like all other callers.",
  },
  {
    key: "registryAnonymousPull",
    kind: "bool",
    env: ["SVC_REGISTRY_ANONYMOUS_PULL"],
    default: false,
    section,
    help:
      "Allows registry pulls without a credential when authentication is configured. A policy " +
      "rule that names pull wins over it.",
  },
]);

export const ACTIVITY = optionTable([
  {
    key: "activityMaxBytes",
    kind: "bytes",
    env: ["SVC_ACTIVITY_MAX_BYTES"],
    default: 8_388_608,
    section: "Activity",
    help:
      "Size cap of the flight record at <data-dir>/activity. One older generation is kept beside it. " +
      "0: no record.",
    check: notNegative,
  },
]);
