/** What svc adds to a workload on any backend: the fields of a deployment spec that ask for it. */
import type { FieldTable } from "../../../lib/api/deploy_spec_fields.ts";

export const PROXY: FieldTable["proxy"] = [
  "What the workload may connect to, kept by a proxy beside it.",
  { mode: "enforcing", allow: ["db"] },
  {
    mode: ["`enforcing`: nothing else is reached; `cooperative`: names lead there.", "enforcing"],
    allow: ["Deployments that it may connect to.", ["db"]],
    ports: ["Ports that it may connect to.", [5432]],
    listenPort: ["Port the proxy listens on inside the workload.", 15001],
  },
];

export const HUB: FieldTable["hub"] = [
  "Ports that workloads lend each other through the server, wherever they run.",
  { identity: "shop-web", import: ["db"] },
  {
    identity: ["The name that others know it by.", "shop-web"],
    export: ["Services of this workload that others may reach.", ["web"]],
    import: ["Services of others that are reached here, by name.", ["db"]],
    importDynamic: ["Services that others offer later are reached too.", true],
  },
];

export const DOCKER: FieldTable["docker"] = [
  "A Docker API in the workload whose containers are deployments of this server.",
  { socketPath: "/var/run/docker.sock" },
  {
    transport: ["`unix` or `tcp`.", "unix"],
    port: ["Port of `tcp`.", 2375],
    socketPath: ["Path of the socket.", "/var/run/docker.sock"],
    envVar: ["Variable that says where it is.", "DOCKER_HOST"],
  },
];

export const CREDENTIALS: FieldTable["credentials"] = [
  "Credentials that the caller of a session makes for the workload, renewed while it runs (credentials.md).",
  { sources: [{ name: "github", backend: "gh" }] },
  {
    sources: ["Where they come from.", [{ name: "github", backend: "gh" }], {
      name: ["The source's name.", "github"],
      backend: [
        "What makes it at the caller: `static`, `env`, `exec`, `file`, `aws-sts`, `gh`, `claude`, `codex` or " +
        "`gemini`; default the name.",
        "gh",
      ],
      config: ["The backend's own settings.", { host: "github.com" }],
      ttl: ["How long one is used.", "1h"],
      deliver: ["How it comes to the workload.", [{ kind: "file", path: "/run/secrets/token" }], {
        kind: ["`endpoint`, `file` or `env`.", "file"],
        provider: ["Shape of the endpoint's answers.", "aws-imds"],
        wellKnown: ["Address where programs look for such an endpoint.", "169.254.169.254"],
        upstream: ["API whose requests get it on the way.", "https://api.github.com"],
        path: ["File it is written to.", "/run/secrets/token"],
        format: ["Of the file: `json`, `env`, `raw` or `aws-credentials`.", "raw"],
        envVar: ["Variable with its path, or its URL.", "GITHUB_TOKEN_FILE"],
        valueKey: ["The part of it that is delivered.", "token"],
      }],
    }],
  },
];

export const EGRESS: FieldTable["egress"] = [
  "Where the workload's own connections go out. A route is `client` (the session's caller), `gateway` " +
  "(the server), `cluster` (straight out) or `deny`.",
  { mode: "proxy", rules: [{ pattern: "*.internal", route: "client" }] },
  {
    mode: [
      "`env`: the caller's proxy variables; `proxy`: a proxy in the workload; `transparent`: all TCP.",
      "proxy",
    ],
    proxies: ["Proxy variables of `env`.", { HTTPS_PROXY: "http://proxy.example.com:3128" }],
    rules: ["The first that matches decides.", [{ pattern: "*.internal", route: "client" }], {
      pattern: ["Host glob, address range or `:port`.", "*.internal"],
      route: ["The route.", "client"],
    }],
    script: [
      "A proxy auto-configuration script.",
      "function FindProxyForURL(url, host) { return 'DIRECT'; }",
    ],
    default: ["Route of what no rule matches.", "cluster"],
    listenPort: ["Port of the proxy inside the workload.", 3128],
  },
];

export const INGRESS: FieldTable["ingress"] = [
  "Host names whose HTTP requests come to the workload, through the server's ingress.",
  { hosts: ["web.example.com"], port: 8080 },
  {
    enabled: ["false switches it off.", true],
    hosts: ["Host names; `*.example.com` for all below, `@` for the domain itself.", [
      "web.example.com",
    ]],
    domain: ["The domain, in place of the server's `SVC_INGRESS_DOMAIN`.", "example.com"],
    subdomain: ["One name below the domain.", "web"],
    path: ["Requests for this path and what is below it.", "/api"],
    pathType: [
      "`Exact` for the path alone, `Prefix` for what is below it too; `ImplementationSpecific` is " +
      "`Prefix`.",
      "Prefix",
    ],
    port: ["Port inside the container; none: the first TCP port of `ports` or `expose`.", 8080],
    className: ["Ingress class of a cluster.", "nginx"],
    annotations: ["Annotations of a cluster's Ingress.", { "example.com/timeout": "30" }],
    tls: ["true, or the certificate that the ingress shows.", true, {
      secretName: ["A cluster's Secret with the certificate.", "web-tls"],
      hosts: ["Hosts the certificate is for.", ["web.example.com"]],
    }],
  },
];

export const KNATIVE: FieldTable["knative"] = [
  "Runs it as a Knative Service, where the cluster has Knative.",
  { enabled: true, minScale: 0, maxScale: 5 },
  {
    enabled: ["Asks for it.", true],
    minScale: ["Least number of instances.", 0],
    maxScale: ["Greatest number of instances.", 5],
    initialScale: ["Instances at first.", 1],
    containerConcurrency: ["Requests at a time in one instance; 0: no limit.", 10],
    target: ["Value of the metric that it scales towards.", 100],
    metric: ["What it scales by.", "concurrency"],
    class: ["The autoscaler.", "kpa.autoscaling.knative.dev"],
    timeout: ["How long a request may take.", "5m"],
  },
];

export const TELEMETRY: FieldTable["telemetry"] = [
  "OpenTelemetry of the workload goes to the server.",
  { enabled: true, serviceName: "web" },
  {
    enabled: ["Asks for it.", true],
    traces: ["Traces too.", true],
    metrics: ["Metrics too.", true],
    logs: ["Logs too.", true],
    serviceName: ["`service.name` of what it sends.", "web"],
    attributes: ["More attributes of what it sends.", { "deployment.environment": "test" }],
  },
];
