/** docs/reference/authentication.md: the documents that an operator writes, scopes and actions. */
import { ACTIONS } from "../../lib/auth/policy.ts";
import { SCOPE_HELP } from "../../lib/auth/scope.ts";
import { cell, code, table } from "./markdown.ts";

const ACTION_HELP: Record<typeof ACTIONS[number], string> = {
  build: "build images, under any name",
  deploy: "create, change, power and remove deployments; includes `exec`",
  exec: "run commands in deployments",
  push: "write to the registry; includes `pull`",
  pull: "read from the registry; asked for only where a rule names it",
  gc: "collect garbage and check the store",
};

export function authenticationPage(): string {
  const scopes = Object.entries(SCOPE_HELP).map(([name, help]) => [code(name), "", cell(help)]);
  const actions = ACTIONS.map((name) => [code(name), "", cell(ACTION_HELP[name])]);
  const narrow = (heading: string, rows: string[][]) =>
    table([heading, "what it is for"], rows.map(([name, , help]) => [name, help]));
  return `# Authentication

With nothing of this configured the server asks for no credential. Once something is, every request
but those marked *open* in [http-api.md](http-api.md) needs one, and what cannot be read at the start
ends the start. The variables are in [server-options.md](server-options.md).

A credential is sent as \`Authorization: Bearer TOKEN\`, and on \`/v2/\` also as \`Basic\` with any user
and the token as password (\`docker login -u any -p TOKEN\`). A client certificate that verifies against
\`SVC_TLS_CLIENT_CA\` identifies by its CommonName where no token is sent. A token or certificate that is
sent and is not good is refused, whatever else is sent. Answers: 401 without a good credential, 403 with
the missing scope or action named.

## Scopes

What a credential is for. The static token has all, a client certificate \`api\`.

${narrow("scope", scopes)}
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
granted by a rule or denied; rows without an action need a credential with the scope only. An identity
without a name is granted nothing.

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
\`SVC_REGISTRY_ANONYMOUS_PULL\`.
`;
}
