/** The wizard's questions as data, and the context that the answers make. */
import type { Field } from "../../client/profile/field.ts";
import { expand } from "../../client/profile/paths.ts";
import { pemTrouble } from "../../client/profile/pem.ts";
import type { Context } from "../../client/profile/types.ts";
import { checkContext } from "../../client/profile/validate.ts";
import { type Ask, BACK, type Choice } from "./ask.ts";

export type Answers = Partial<Record<string, string>>;

interface Step {
  key: string;
  question: string;
  /** Absent: the answer is text. */
  choices?: (answers: Answers) => Choice[];
  initial?: (answers: Answers) => string | undefined;
  /** Absent: the question is always asked. */
  when?: (answers: Answers) => boolean;
  /** True where the answer may be empty. */
  optional?: boolean;
  secret?: boolean;
  /** The answer is the path of a PEM file that holds this. */
  pem?: Field["pem"];
}

const choice = (value: string, label: string): Choice => ({ value, label });

const on = (scenario: string) => (answers: Answers) => answers.scenario === scenario;

/** True where the server's own listener speaks TLS. */
function secure({ scenario, server = "", tls }: Answers): boolean {
  if (scenario === "remote") return server.startsWith("https:");
  return (scenario === "ssh" || scenario === "cluster") && tls === "yes";
}

const STEPS: readonly Step[] = [
  {
    key: "scenario",
    question: "Where is the server?",
    choices: () => [
      choice("local", "on this machine"),
      choice("remote", "at a URL"),
      choice("ssh", "on a host that I reach with SSH"),
      choice("cluster", "in a Kubernetes cluster, behind a Service"),
    ],
    initial: () => "local",
  },
  { key: "port", question: "Its port", when: on("local"), initial: () => "5000" },
  { key: "server", question: "Its URL", when: on("remote"), initial: () => "https://" },
  { key: "addr", question: "Host: an alias of ssh_config, or [user@]host[:port]", when: on("ssh") },
  {
    key: "remoteAddr",
    question: "The server's address as that host sees it",
    when: on("ssh"),
    initial: () => "127.0.0.1:5000",
  },
  {
    key: "user",
    question: "Login user (empty: what ssh_config says, else yours)",
    when: on("ssh"),
    optional: true,
  },
  {
    key: "sshKey",
    question: "Private key to log in with (empty: your agent's and ssh_config's)",
    when: on("ssh"),
    optional: true,
  },
  {
    key: "kubeContext",
    question: "Kube context (empty: the current one)",
    when: on("cluster"),
    optional: true,
  },
  { key: "namespace", question: "Namespace", when: on("cluster"), initial: () => "default" },
  { key: "service", question: "Service", when: on("cluster"), initial: () => "svc" },
  {
    key: "remotePort",
    question: "Port of the Service",
    when: on("cluster"),
    initial: () => "5000",
  },
  {
    key: "tls",
    question: "Does the server itself speak TLS there?",
    choices: () => [choice("no", "no, plain HTTP"), choice("yes", "yes, HTTPS")],
    when: (answers) => on("ssh")(answers) || on("cluster")(answers),
    initial: () => "no",
  },
  {
    key: "ca",
    pem: "certificate",
    question: "File of its CA certificate (empty: the system's trust)",
    when: secure,
    optional: true,
  },
  {
    key: "serverName",
    question: "Name that its certificate is for",
    when: (answers) => secure(answers) && !on("remote")(answers),
    initial: ({ scenario, addr, service, namespace }) =>
      scenario === "cluster"
        ? `${service}.${namespace}.svc`
        : (addr ?? "").replace(/^.*@|:\d+$/g, ""),
  },
  {
    key: "auth",
    question: "How do you prove who you are?",
    choices: (answers) => [
      choice("none", "not at all: the server asks for nothing"),
      choice("token", "with a token"),
      choice("key", "with an SSH key in a file"),
      choice("agent", "with a key of my SSH agent"),
      ...(secure(answers) ? [choice("certificate", "with a client certificate (mTLS)")] : []),
      ...(answers.scenario === "cluster"
        ? [choice("kube", "with a ServiceAccount of the cluster")]
        : []),
    ],
    initial: () => "none",
  },
  { key: "token", question: "Token", when: (answers) => answers.auth === "token", secret: true },
  {
    key: "identity",
    question: "Private key",
    when: (answers) => answers.auth === "key",
    initial: () => "~/.ssh/id_ed25519",
  },
  {
    key: "fingerprint",
    question: "Fingerprint of the key (ssh-add -l shows it)",
    when: (answers) => answers.auth === "agent",
  },
  {
    key: "clientCert",
    pem: "certificate",
    question: "File of the client certificate",
    when: (answers) => answers.auth === "certificate",
  },
  {
    key: "clientKey",
    pem: "key",
    question: "File of its private key",
    when: (answers) => answers.auth === "certificate",
  },
  { key: "account", question: "ServiceAccount", when: (answers) => answers.auth === "kube" },
  {
    key: "audience",
    question: "Audience that the server expects (SVC_JWT_AUDIENCE)",
    when: (answers) => answers.auth === "kube",
    optional: true,
  },
  { key: "name", question: "Name of this connection", initial: nameOf },
];

function nameOf({ scenario, server, addr, service }: Answers): string {
  if (scenario === "remote") return URL.parse(server ?? "")?.hostname || "remote";
  if (scenario === "ssh") return (addr ?? "").replace(/^.*@|:\d+$/g, "");
  return scenario === "cluster" ? service ?? "cluster" : "local";
}

function endpointOf(a: Answers): Context {
  switch (a.scenario) {
    case "remote":
      return { server: a.server };
    case "ssh":
      return {
        "ssh-tunnel": {
          addr: a.addr,
          ...(a.user && { user: a.user }),
          ...(a.remoteAddr && { "remote-addr": a.remoteAddr }),
          ...(a.sshKey && { "identity-file": a.sshKey }),
          ...(secure(a) && { "remote-tls": true }),
        },
      };
    case "cluster":
      return {
        "port-forward": {
          ...(a.kubeContext && { "kube-context": a.kubeContext }),
          ...(a.namespace && { namespace: a.namespace }),
          ...(a.service && { service: a.service }),
          ...(a.remotePort && { "remote-port": Number(a.remotePort) }),
        },
      };
    default:
      return { server: `http://localhost:${a.port ?? "5000"}` };
  }
}

function credentialOf(a: Answers): Context {
  switch (a.auth) {
    case "token":
      return { token: a.token };
    case "key":
      return { "key-auth": { "identity-file": a.identity } };
    case "agent":
      return { "key-auth": { "key-fingerprint": a.fingerprint } };
    case "kube":
      return {
        "kube-auth": { "service-account": a.account, ...(a.audience && { audience: a.audience }) },
      };
    default:
      return {};
  }
}

function tlsOf(a: Answers): Context {
  const certificate = a.auth === "certificate" && a.clientCert;
  const tls = secure(a)
    ? {
      ...(a.ca && { "ca-cert": a.ca }),
      ...(a.scenario !== "remote" && a.serverName && { "server-name": a.serverName }),
      ...(certificate && { "client-cert": certificate, "client-key": a.clientKey }),
    }
    : {};
  return Object.keys(tls).length > 0 ? { tls } : {};
}

/** Throws `config_invalid` for answers that make no context. */
export function contextOf(answers: Answers): Context {
  return checkContext(
    { ...endpointOf(answers), ...tlsOf(answers), ...credentialOf(answers) },
    "the answers",
  );
}

/** The error of the field that an answer sets; undefined where the answer is valid. */
function complaint(
  step: Step,
  answers: Answers,
  answer: string,
  home?: string,
): string | undefined {
  if (answer === "" && !step.optional) return "an answer is needed here";
  if (step.key === "name" || answer === "") return undefined;
  if (step.pem) return pemTrouble(expand(answer, Deno.cwd(), home), step.pem);
  try {
    // Only the answer's own block is checked: the others may not be answered yet.
    const now = { ...answers, [step.key]: answer };
    const credential = STEPS.findIndex(({ key }) =>
      key === step.key
    ) > STEPS.findIndex(({ key }) => key === "auth");
    const part = credential ? credentialOf(now) : endpointOf(now);
    const partial = ["namespace", "kubeContext", "service"].includes(step.key);
    if (!partial) checkContext(part, "the answer");
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

/** Asks the steps from `from` on, and deletes the answers of steps that do not apply. */
export async function askAll(
  ask: Ask,
  answers: Answers,
  { from = 0, home }: { from?: number; home?: string } = {},
): Promise<Answers> {
  for (let at = from; at < STEPS.length;) {
    const step = STEPS[at];
    if (step.when && !step.when(answers)) {
      delete answers[step.key];
      at++;
      continue;
    }
    const initial = answers[step.key] ?? step.initial?.(answers);
    const answer = step.choices
      ? await ask.select(step.question, step.choices(answers), initial)
      : await ask.text(step.question, {
        ...(initial !== undefined && { initial }),
        ...(step.secret && { secret: true }),
        check: (text) => complaint(step, answers, text, home),
      });
    if (answer === BACK) at = before(at, answers);
    else {
      answers[step.key] = answer;
      at++;
    }
  }
  return answers;
}

/** The step that was asked before this one. */
function before(at: number, answers: Answers): number {
  for (let i = at - 1; i >= 0; i--) if (!STEPS[i].when || STEPS[i].when!(answers)) return i;
  return 0;
}
