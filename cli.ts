/** The command table (DESIGN.md section 11): thin, so that starting svc loads what the command needs. */
import { ACTIVITY_OPTIONS, AUTH_OPTIONS } from "./lib/commands/auth_options.ts";
import { type Command, command } from "./lib/commands/command.ts";
import { CONFIG_OPTIONS } from "./lib/commands/config/options.ts";
import { type CliContext, dispatch } from "./lib/commands/dispatch.ts";
import * as options from "./lib/commands/options.ts";
import { DOCTOR_OPTIONS } from "./lib/commands/doctor_options.ts";
import { PORT_FORWARD_OPTIONS } from "./lib/commands/forward_options.ts";
import { LOGIN_OPTIONS, LOGOUT_OPTIONS, TOKEN_OPTIONS } from "./lib/commands/login_options.ts";
import { GC_OPTIONS, STORAGE_OPTIONS } from "./lib/commands/storage_options.ts";
import { SOCKS5_OPTIONS } from "./lib/commands/socks5_options.ts";
import { PULL_OPTIONS, PUSH_OPTIONS } from "./lib/commands/transfer/options.ts";
import { INGRESS_TUNNEL_OPTIONS, TUNNEL_OPTIONS } from "./lib/commands/tunnel_options.ts";
import { DAEMON_COMMANDS } from "./lib/commands/daemon/commands.ts";
import { COMPOSE_COMMANDS } from "./lib/commands/compose/commands.ts";
import { PROJECT_OPTIONS } from "./lib/commands/compose/options.ts";
import { WORKLOAD_COMMANDS } from "./lib/commands/workload_commands.ts";

/** Of `svc push` and `svc pull`. */
const PLACES =
  "A place is NAME[:TAG][@DIGEST] in the server's registry, HOST/NAME in another one, " +
  "docker-archive:FILE[:NAME], oci:DIR[:TAG], oci-archive:FILE[:TAG], or the path of a .tar file. " +
  "Digests do not change, and all content is verified on its way. Multi-platform images are copied " +
  "whole; a docker archive holds one platform. Content that the destination has is skipped, and " +
  "after an interruption the same command continues. The logins of docker and podman are used.";

export const COMMANDS: readonly Command[] = [
  {
    name: "serve",
    usage: "[OPTIONS]",
    summary: "Run the server: registry, builder and runtime in one process.",
    options: options.NO_OPTIONS,
  },
  command({
    name: "build",
    usage: "[OPTIONS] CONTEXT",
    summary: "Build an image from a Dockerfile; it lands in the server's registry.",
    description:
      "CONTEXT is a directory, a URL, or - for a tar archive or a Dockerfile alone on standard input. " +
      "What .dockerignore names is not sent. On success the image's names and digest go to standard output.",
    options: options.BUILD_OPTIONS,
    positionals: { min: 1, max: 1, names: "CONTEXT" },
    examples: [
      "svc build -t app:v1 .",
      "svc build -t app:dev -f docker/Dockerfile --target dev --build-arg VERSION=2 .",
      "tar -c -C app . | svc build -q -",
      "svc build -t app:v1 https://github.com/org/app.git#main:docker",
    ],
    run: () => import("./lib/commands/build.ts"),
  }),
  command({
    name: "push",
    usage: "[OPTIONS] SOURCE DEST",
    summary: "Copy an image to a registry, or between any two places.",
    description: `${PLACES} A DEST without tag is latest.`,
    options: PUSH_OPTIONS,
    positionals: { min: 2, max: 2, names: "SOURCE or DEST" },
    examples: [
      "svc push app:v1 registry.example.com/team/app:v1",
      "svc push docker-archive:app.tar app:v1",
      "svc push oci:layout:v1 app:v1 --referrers",
    ],
    run: () => import("./lib/commands/push.ts"),
  }),
  command({
    name: "pull",
    usage: "[OPTIONS] SOURCE [DEST]",
    summary: "Copy an image into the server's registry, a folder or an archive.",
    description:
      `${PLACES} Without DEST the image goes to the server's registry under its own name.`,
    options: PULL_OPTIONS,
    positionals: { min: 1, max: 2, names: "SOURCE" },
    examples: [
      "svc pull docker.io/library/busybox:1.36",
      "svc pull app:v1 -o app.tar && docker load -i app.tar",
      "svc pull app:v1 oci:layout:v1",
      "svc pull app:v1 oci-archive:app.tar --platform linux/arm64",
    ],
    run: () => import("./lib/commands/pull.ts"),
  }),
  command({
    name: "deploy",
    usage: "[OPTIONS] [-f SPEC | IMAGE]",
    summary: "Make a deployment run as its spec says; an unchanged deployment is left alone.",
    description:
      "With --session the command stays: it shows the deployment's logs, and where its ports are " +
      "reached on this machine. It ends when the deployment ends, with the deployment's exit code, or " +
      "by an interrupt; the server then removes the deployment. A lost connection is resumed. The " +
      "server waits for a client as long as its SVC_SESSION_GRACE says. " +
      "docs/reference/deployment-spec.md describes every field of a SPEC, and has a complete one to " +
      "begin with.",
    options: options.DEPLOY_OPTIONS,
    positionals: { min: 0, max: 1, names: "IMAGE" },
    examples: [
      "svc deploy -f app.yaml",
      "svc deploy -f app.yaml --image app:v2",
      "svc deploy app:v1 --name web -p 8080:80 -e MODE=fast",
      "svc deploy --session -f app.yaml",
      "svc deploy --session --conduit socks5 -f app.yaml",
    ],
    run: () => import("./lib/commands/deploy.ts"),
  }),
  ...WORKLOAD_COMMANDS,
  {
    name: "compose",
    usage: "[OPTIONS] COMMAND",
    summary: "Run the services of Compose files, as docker compose does.",
    description:
      "The files and commands are docker compose's; the services run on the server. docs/compose.md " +
      "tells the differences.",
    options: PROJECT_OPTIONS,
    children: COMPOSE_COMMANDS,
    examples: [
      "svc compose up -d",
      "svc compose -f compose.yaml -f compose.prod.yaml -p shop up --build",
      "svc compose logs -f web",
      "svc compose down -v",
    ],
  },
  {
    name: "daemon",
    usage: "[OPTIONS] COMMAND",
    summary: "The background agent, and what else stays in the background of this machine.",
    description:
      "The agent is one process a user. It holds what outlives a command: mounts of this machine's " +
      "files, forwarded ports, egress and credentials of svc compose up -d and svc deploy --session -d. " +
      "Commands start it; it ends when it holds nothing. docs/agent.md tells more.",
    options: options.NO_OPTIONS,
    children: DAEMON_COMMANDS,
    examples: ["svc daemon status", "svc daemon stop"],
  },
  command({
    name: "port-forward",
    usage: "[OPTIONS] NAME [[[ADDRESS:]LOCAL:]REMOTE[/udp]...]",
    summary: "Make ports of a deployment answer on this machine, until interrupted.",
    description:
      "REMOTE is a port of the deployment's instances, published or not; connections go to the " +
      "instances in turn. LOCAL is the same number where it is left out, and a free port where it is " +
      "empty. Without ports, every port that the deployment declares is forwarded, from a free local " +
      "port where the same number is taken. Each connection is dialled by itself, so the deployment " +
      "may be replaced meanwhile.",
    options: PORT_FORWARD_OPTIONS,
    positionals: { min: 1, max: Infinity, names: "NAME" },
    examples: [
      "svc port-forward web 8080:80",
      "svc port-forward db :5432",
      "svc port-forward --address 0.0.0.0 dns 5353:53/udp",
      "svc port-forward web",
    ],
    run: () => import("./lib/commands/port_forward.ts"),
  }),
  command({
    name: "socks5",
    usage: "[OPTIONS]",
    summary: "Run a local SOCKS5 proxy in front of every workload, until interrupted.",
    description:
      "A host that is a service (by suffix, by rule or by its bare name) leads to the same port of the " +
      "deployment's instances, in turn. Every other host is reached directly from this machine, with " +
      "its own DNS. Clients must let the proxy resolve names (socks5h). There is no password: anyone " +
      "who reaches the address reaches the workloads.",
    options: SOCKS5_OPTIONS,
    examples: [
      "svc socks5",
      "curl --proxy socks5h://127.0.0.1:1080 http://web.svc.internal:8080/",
      "svc socks5 --listen 127.0.0.1:9050 --resolve '^(\\w+)\\.corp\\.example:(\\d+)$=\\1:\\2'",
    ],
    run: () => import("./lib/commands/socks5.ts"),
  }),
  command({
    name: "tunnel",
    usage: "[OPTIONS] NAME[:PORT]",
    summary: "Give a deployment a public URL, until interrupted.",
    description:
      "PORT is a port of the deployment's instances, published or not; it may be left out where the " +
      "deployment declares only one. The URL goes to standard output, and again when it changes. " +
      "docs/ports.md describes how to set up a server for tunnels.",
    options: TUNNEL_OPTIONS,
    positionals: { min: 1, max: 1, names: "NAME" },
    examples: [
      "svc tunnel web:8080",
      "svc tunnel --backend ssh --authtoken-file ~/.ssh/tunnel_key web",
    ],
    run: () => import("./lib/commands/tunnel.ts"),
  }),
  command({
    name: "ingress-tunnel",
    usage: "[OPTIONS]",
    summary:
      "Give the server's ingress a public URL, or a port of this machine, until interrupted.",
    description:
      "The hosts and paths that deployments declare (`ingress` of the spec) answer there. " +
      "docs/ports.md describes the host modes.",
    options: INGRESS_TUNNEL_OPTIONS,
    examples: [
      "svc ingress-tunnel --host-mode passthrough --host app.example.com",
      "svc ingress-tunnel --host app.example.com --host-mode rewrite --local 8080",
    ],
    run: () => import("./lib/commands/ingress_tunnel.ts"),
  }),
  command({
    name: "info",
    usage: "[OPTIONS]",
    summary: "Show what the server is and can do.",
    options: options.NO_OPTIONS,
    run: () => import("./lib/commands/info.ts"),
  }),
  command({
    name: "gc",
    usage: "[OPTIONS]",
    summary: "Collect garbage: blobs that no manifest refers to.",
    description: "Safe while others push and pull.",
    options: GC_OPTIONS,
    examples: ["svc gc --dry-run", "svc gc"],
    run: () => import("./lib/commands/gc.ts"),
  }),
  command({
    name: "storage",
    usage: "[OPTIONS] usage|verify",
    summary: "Show what the server's store holds, or check all of it.",
    description:
      "verify reads every blob, compares it with its digest, and checks that nothing refers to missing " +
      "content; svc exits with 1 where something is wrong. An index with a manifest that a client " +
      "deleted is only a warning.",
    options: STORAGE_OPTIONS,
    positionals: { min: 1, max: 1, names: "usage or verify" },
    examples: ["svc storage usage", "svc storage verify --quarantine"],
    run: () => import("./lib/commands/storage.ts"),
  }),
  command({
    name: "caretaker",
    usage: "[check]",
    summary: "Run beside a workload what its server asks for; check tells whether it does.",
    description:
      "Reads the roles from SVC_CARETAKER_CONFIG (JSON) and attaches to the server with " +
      "SVC_CARETAKER_TOKEN. A server with one of the SVC_..._REMOTE variables starts it as a companion of " +
      "each instance. A role that cannot start ends it; check ends with 0 once all roles serve.",
    options: options.NO_OPTIONS,
    positionals: { min: 0, max: 1, names: "check" },
    examples: ["svc caretaker", "svc caretaker check"],
    run: () => import("./lib/commands/caretaker.ts"),
  }),
  command({
    name: "image",
    usage: "[OPTIONS] agent [DEST]",
    summary: "Make the image of companions from this executable, and put it somewhere.",
    description:
      "The image holds the running executable and the libraries that it uses, and nothing else. DEST is a " +
      "place as of svc push; without one it is svc-agent, tagged with the version, in the server's registry. " +
      "Servers take it from SVC_AGENT_IMAGE.",
    options: PUSH_OPTIONS,
    positionals: { min: 1, max: 2, names: "agent" },
    examples: ["svc image agent", "svc image agent registry.example.com/svc-agent:1"],
    run: () => import("./lib/commands/image.ts"),
  }),
  command({
    name: "setup",
    usage: "[OPTIONS]",
    summary: "Set up the connection to a server by questions, and test it.",
    description:
      "At the end svc prints the command that does the same. On a pipe, each line of standard input is " +
      "an answer.",
    options: options.NO_OPTIONS,
    run: () => import("./lib/commands/setup.ts"),
  }),
  command({
    name: "login",
    usage: "[OPTIONS]",
    summary: "Log in to the server, and keep the login in the connection profile.",
    description:
      "Without options svc tries the context's own credential, and asks for a token where there is " +
      "none. A key or token that is given and works is kept in the selected context, or in a new one.",
    options: LOGIN_OPTIONS,
    examples: [
      "svc login --server https://svc.example.com --token - < token",
      "svc login --server https://svc.example.com --identity-file ~/.ssh/id_ed25519",
      "svc login --docker",
    ],
    run: () => import("./lib/commands/login.ts"),
  }),
  command({
    name: "logout",
    usage: "[OPTIONS]",
    summary: "Log out: remove the stored session, and the token of the context.",
    options: LOGOUT_OPTIONS,
    run: () => import("./lib/commands/logout.ts"),
  }),
  command({
    name: "token",
    usage: "issue [OPTIONS]",
    summary: "Issue a short-lived token from your credential, on standard output.",
    options: TOKEN_OPTIONS,
    positionals: { min: 1, max: 1, names: "issue" },
    examples: ["svc token issue --scope registry:pull"],
    run: () => import("./lib/commands/token.ts"),
  }),
  command({
    name: "config",
    usage: "VERB [NAME] [OPTIONS]",
    summary: "Show and change the connection profiles.",
    description:
      "VERB is get-contexts, current-context, use-context, set-context, delete-context or view. " +
      "set-context changes the fields that its flags name, --server among them, and keeps all other " +
      "fields and comments; the first context becomes the current one. view hides tokens. " +
      "docs/reference/profile.md describes the file.",
    options: CONFIG_OPTIONS,
    positionals: {
      ...{ min: 1, max: 2 },
      names: "get-contexts, current-context, use-context, set-context, delete-context or view",
    },
    examples: [
      "svc config set-context prod --server https://svc.example.com --token - < token",
      "svc config set-context lab --ssh-addr lab.example.com --current",
      "svc config set-context k8s --pf-namespace svc --pf-service svc --pf-remote-port 5000 " +
      "--kube-auth-service-account ci --kube-auth-audience svc --token-exchange",
      "svc config view --export prod > prod.yaml",
    ],
    run: () => import("./lib/commands/config.ts"),
  }),
  command({
    name: "auth",
    usage: "[OPTIONS] keys add [FILE] | keys list | keys rm NAME...",
    summary: "Enrol, list and remove the SSH keys that may open sessions.",
    description:
      "FILE is a public key, or - for standard input. Without FILE, the key of the context's key-auth " +
      "is enrolled under its name, with the credential in SVC_TOKEN. Removing a key ends its sessions; " +
      "NAME is a name or a fingerprint. Keys of the server's configuration are listed, and cannot be " +
      "removed here.",
    options: AUTH_OPTIONS,
    positionals: { min: 2, max: Infinity, names: "keys add, list or rm" },
    examples: [
      "svc auth keys add ~/.ssh/id_ed25519.pub --name alice",
      "SVC_TOKEN=$ADMIN svc auth keys add --context lab",
      "svc auth keys add ci.pub --scope registry:push --expires 720h",
      "svc auth keys rm alice",
    ],
    run: () => import("./lib/commands/auth.ts"),
  }),
  command({
    name: "activity",
    usage: "[OPTIONS]",
    summary: "Show who did what to which name, from where, and the result.",
    options: ACTIVITY_OPTIONS,
    examples: ["svc activity -f", "svc activity --since 1h --output json"],
    run: () => import("./lib/commands/activity.ts"),
  }),
  command({
    name: "doctor",
    usage: "[OPTIONS] [storage URL]",
    summary: "Check each step of the way to the server, or everything that svc needs of a bucket.",
    description:
      "Without arguments: connection, clocks, certificates, credential, and whether docker, podman, " +
      "containerd and k3s of this host trust the server's registry. URL is a value of SVC_STORAGE: " +
      "s3://, gs:// or azblob://. Test objects are written to a folder of their own and removed again. " +
      "svc exits with 1 where something is missing that it needs.",
    options: DOCTOR_OPTIONS,
    positionals: { min: 0, max: 2, names: "storage or URL" },
    examples: [
      "svc doctor",
      "svc doctor --fix",
      'svc doctor storage "s3://images?endpoint=https://s3.example.com&path_style=true"',
    ],
    run: () => import("./lib/commands/doctor.ts"),
  }),
  command({
    name: "completion",
    usage: "bash|zsh|fish",
    summary: "Write a shell's completion of svc: commands, options, verbs and contexts.",
    description:
      "For bash: source <(svc completion bash), in ~/.bashrc; for zsh the same in ~/.zshrc; for fish: " +
      "svc completion fish | source.",
    options: options.NO_OPTIONS,
    positionals: { min: 1, max: Infinity, names: "bash, zsh or fish" },
    examples: ["source <(svc completion bash)"],
    run: () => import("./lib/commands/completion.ts"),
  }),
  command({
    name: "version",
    usage: "[OPTIONS]",
    summary: "Show the version of this executable.",
    options: options.VERSION_OPTIONS,
    run: () => import("./lib/commands/version.ts"),
  }),
];

/**
 * Runs one command line and resolves to the exit code: 0 done, 1 failed, 2 usage, 125 svc failed around a
 * command that ran, 130 interrupted, else the remote command's own.
 */
export function runCli(args: readonly string[], context: CliContext): Promise<number> {
  return dispatch(COMMANDS, args, context);
}
