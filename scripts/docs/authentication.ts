/** docs/reference/authentication.md: the documents that an operator writes, scopes and actions. */
import { SSHSIG_NAMESPACE, TOKEN_EXCHANGE } from "../../lib/api/auth.ts";
import { ACTIONS } from "../../lib/auth/policy.ts";
import { SCOPE_HELP } from "../../lib/auth/scope.ts";
import { KEY_TYPES } from "../../lib/auth/ssh/public_key.ts";
import { cell, code, table } from "./markdown.ts";

const ACTION_HELP: Record<typeof ACTIONS[number], string> = {
  build: "build images, under any name",
  deploy: "create, change, power and remove deployments; includes `exec`, `logs` and `read`",
  exec: "run commands in deployments; includes `read`",
  logs: "what deployments print",
  read: "lists and status of deployments, tunnels and storage",
  push: "write to the registry; includes `pull`",
  pull:
    "read from the registry; asked for only where a rule names it, and then also for images of this " +
    "server that a build or a deployment names",
  gc: "collect garbage and check the store",
  admin: "the flight record, and other people's SSH keys",
};

export function authenticationPage(): string {
  const scopes = Object.entries(SCOPE_HELP).map(([name, help]) => [code(name), "", cell(help)]);
  const actions = ACTIONS.map((name) => [code(name), "", cell(ACTION_HELP[name])]);
  const narrow = (heading: string, rows: string[][]) =>
    table([heading, "what it is for"], rows.map(([name, , help]) => [name, help]));
  return `# Authentication

With nothing of this configured the server asks for no credential. Once something is, every request
but those marked *open* in [http-api.md](http-api.md) needs one, and what cannot be read at the start
ends the start. The variables are in [server-options.md](server-options.md). A server that asks for no
credential warns at start where others than this machine reach it. What needs no credential, pulls where
\`SVC_REGISTRY_ANONYMOUS_PULL\` opens them among it, browsers get under the server's own names alone (addresses,
localhost, the host's name, \`SVC_ADVERTISE_REGISTRY\`; 421 under others): whoever owns a domain can have its
name stand for the server's address.

A credential is sent as \`Authorization: Bearer TOKEN\`, and on \`/v2/\` also as \`Basic\` with any user
and the token as password (\`docker login -u any -p TOKEN\`). A client certificate that verifies against
\`SVC_TLS_CLIENT_CA\` identifies by its CommonName where no token is sent. A token or certificate that is
sent and is not good is refused, whatever else is sent. Answers: 401 without a good credential, 403 with
the missing scope or action named.

## Scopes

What a credential is for. The static token has all, a client certificate \`api\`.

${narrow("scope", scopes)}
JWTs need an end (\`exp\`); \`SVC_JWT_ALLOW_NO_EXPIRY\` takes those of the own keys without one.
Tokens verified by \`SVC_JWT_HS256_SECRET\` or \`SVC_JWT_PUBLIC_KEY\` carry theirs in the claim \`scope\`, as
text separated by spaces or as a list. Tokens of a key set (\`SVC_JWT_JWKS_FILE\`, \`SVC_JWT_JWKS_URL\`) are
a third party's: their own \`scope\` is not looked at, the scope map decides.

## Scope map

\`SVC_JWT_SCOPE_MAP\` names a YAML or JSON file. The first rule whose claims all match decides;
\`SVC_JWT_DEFAULT_SCOPE\` is what the others get.

\`\`\`yaml
rules:
  - claims:                       # all of them have to match
      iss: https://token.actions.githubusercontent.com
      repository: my-org/*        # * stands for any characters
      ref: [refs/heads/main, refs/tags/*]   # one of them
    scope: registry:push          # or a list
    subject: "ci:{repository}"    # identity; without it the claim sub
  - claims:
      /kubernetes.io/namespace: prod   # a claim inside a claim, as a JSON pointer
      groups: deployers                # a claim that is a list matches by one of its entries
    scope: [api]
\`\`\`

Texts match texts, numbers and booleans themselves. A rule whose \`subject\` names a claim that is missing
does not match.

## Policy

\`SVC_API_POLICY\` is the path of a YAML or JSON file, or the document itself where the value begins with
\`{\` or has several lines. Without a policy everybody may do what the scope is for. With one, an action is
granted by a rule or denied. *any* in [http-api.md](http-api.md) is granted to whoever has an action at all.
An identity without a name, or one that no rule names, is granted nothing; pulls are the exception, which are
asked for only where a rule names \`pull\`.

\`\`\`yaml
rules:
  - subjects: ["ci:my-org/*"]     # identities; * stands for any characters
    methods: [jwt]                # how it was proved: token, jwt, mtls, ssh-key; absent: any way
    actions: [build, push]        # or "*"
  - subjects: [alice, token]      # the static token's identity is token
    actions: "*"
\`\`\`

${narrow("action", actions)}
Identities of different methods are not told apart by their names alone: name the methods where an
issuer or a certificate authority is not yours. A rule that names \`pull\` wins over
\`SVC_REGISTRY_ANONYMOUS_PULL\`. The server's own traffic is bounded by the scope of its credentials, not by
the policy.

### What builds share

Builds of everybody use one cache of steps: whoever may build gets the result of a step that somebody else ran
with the same inputs and the same command, and learns from \`CACHED\` that it was run. Cache mounts
(\`RUN --mount=type=cache\`), in which steps find what others left, are an identity's own once there is a
policy, by method and name; so are the results of steps that mount one, and what \`--cache-to\` and
\`--cache-from\` write and read of them. A build that asks for it (\`--allow cache.shared\`) uses those that all
share, on a server that permits it (\`SVC_BUILD_ENTITLEMENTS=cache.shared\`); elsewhere it is refused. Without a
policy they are everybody's. A server that hands builds on (\`SVC_BUILDER_URL\`) tells the builder whose they
are; whoever may call the builder itself can name anybody.

## SSH keys

Keys whose holders may open sessions stand in \`SVC_AUTHORIZED_KEYS\`, or are enrolled with \`svc auth keys\`
into \`<data-dir>/auth/authorized_keys\`, which may also be edited by hand: changes are taken up within a
second, and a file that cannot be read leaves the last good one in use. A line is that of sshd(8); its
comment is the identity, without one the fingerprint is.

    scope="registry:push",expiry-time="20270101Z" ssh-ed25519 AAAA… ci

\`scope\` bounds what sessions are for (default \`api\`), \`expiry-time\` ends the key; \`restrict\` and the
\`no-…\` options say nothing here. A line with any other option is an error, since it would restrict less
than it says. Types: ${KEY_TYPES.map(code).join(", ")}; RSA keys have 2048 bits or more, and
security keys (\`sk-…\`) sign through an SSH agent, with a touch.

A session takes two calls: POST \`/.svc/v1/auth/challenge\` with \`{"fingerprint": "SHA256:…"}\` (\`scope\` and
\`ttl\` where wanted; an hour unless asked otherwise, at most 24h), then POST \`/.svc/v1/auth/session\` with the
challenge and its SSHSIG in the namespace \`${SSHSIG_NAMESPACE}\`:

    printf %s "$challenge" | ssh-keygen -Y sign -n ${SSHSIG_NAMESPACE} -f ~/.ssh/id_ed25519

A challenge is good once and for two minutes, and until the server ends; where \`SVC_INSTALLATION_SECRET\` is
set, at each server that has it. Sessions end with their key.

A key that is enrolled through the API may do no more than the credential it was enrolled with: neither in
scope nor by what the policy grants its name with the method \`ssh-key\`. It lasts \`SVC_AUTH_KEY_MAX_AGE\` at
most, which is also what it gets unless less is asked for; enrolling it again does not lengthen that, removing
it first does. One that is enrolled with a key ends no later than that key. Under a policy everybody sees, enrols and removes keys of the own name only, with the action
\`admin\` other people's too.

## Registry tokens

Where pulls need no credential, docker and its kin ask \`/.svc/v1/auth/registry\` for a token. It is good for
five minutes, and no longer than the credential that it is given for. A token of this server's own buys no
other one: a session's, as the password, is given back as it is, and so ends with its key.

## Token exchange

Where JWTs are verified, POST \`/.svc/v1/auth/token\` (RFC 8693) turns one into a token of this server that
is good for an hour, so that a CI job needs no stored secret:

    curl -d grant_type=${TOKEN_EXCHANGE.grantType} \\
      -d subject_token_type=${TOKEN_EXCHANGE.jwt} \\
      --data-urlencode "subject_token=$JOB_TOKEN" -d scope=registry:push \\
      https://svc.example/.svc/v1/auth/token

\`scope\` narrows; a scope that scope map or policy does not grant is refused (\`invalid_scope\`). What was
issued is good to its end, also when the key or token that it was issued for is withdrawn meanwhile; a new
installation secret ends all of them at once.

## Flight record

\`<data-dir>/activity\`, and one generation before it in \`activity.1\`, hold a line of JSON for everything
that moved or changed something, pulls included, and for everything that was refused: who, what, which name,
from where, with which result. Alike entries of the same moment are one with a count. \`svc activity\` shows
them; nothing secret is in them.
`;
}
