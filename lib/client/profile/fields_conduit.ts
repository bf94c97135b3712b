/** Fields of a context's `conduit` block. */
import { type Field, pair, port } from "./field.ts";

function regExp(value: string): string | undefined {
  try {
    new RegExp(value);
    return undefined;
  } catch {
    return `${JSON.stringify(value)} is not a regular expression`;
  }
}

const RESOLVE_FIELDS: readonly Field[] = [
  {
    name: "pattern",
    kind: "string",
    check: regExp,
    help:
      "JavaScript regular expression that the `host:port` of a CONNECT is tested against; the host is " +
      "in lower case, IPv6 in brackets. Anchor it with `^` and `$`.",
  },
  {
    name: "replace",
    kind: "string",
    help:
      "Template of `service:port`, the whole result; `\\1` to `\\9` are the groups of the pattern.",
  },
];

const SOCKS5_FIELDS: readonly Field[] = [
  {
    name: "listen",
    kind: "string",
    defaultText: "127.0.0.1:1080",
    check: (value: string) =>
      /^(\[[0-9A-Fa-f:.]+\]|[^\s:[\]/]*):\d{1,5}$/.test(value)
        ? undefined
        : `${JSON.stringify(value)} is not [host]:port`,
    help: "Local bind address.",
  },
  {
    name: "service-host-suffix",
    kind: "string",
    defaultText: ".svc.internal",
    help:
      "A host with this suffix is a service and tunneled in; everything else goes out directly. " +
      "Ignored where `resolve` is set.",
  },
  {
    name: "resolve",
    kind: "blocks",
    title: "ResolveRule",
    fields: RESOLVE_FIELDS,
    together: (block) => {
      const field = ["pattern", "replace"].find((name) => block[name] === undefined);
      return field === undefined ? undefined : { field, why: "missing" };
    },
    help: "Ordered rules that replace the suffix; the first match wins.",
  },
  {
    name: "bare-service-names",
    kind: "bool",
    defaultText: "enabled",
    help:
      "A bare host name of a live service is routed inward, where neither rule nor suffix did it.",
  },
];

const CONTROLLER_FIELDS: readonly Field[] = [
  {
    name: "kube-context",
    kind: "string",
    defaultText: "the profile's cluster context",
    help: "Kubeconfig context of the controller's port-forward.",
  },
  { name: "namespace", kind: "string", help: "Namespace of the controller's Service." },
  { name: "service", kind: "string", defaultText: "discovered", help: "The controller's Service." },
  {
    name: "http-port",
    kind: "int",
    defaultText: "discovered",
    check: port,
    help: "HTTP port of the Service.",
  },
  {
    name: "https-port",
    kind: "int",
    defaultText: "discovered",
    check: port,
    help: "HTTPS port of the Service.",
  },
];

const CERTIFICATE_FIELDS: readonly Field[] = [
  {
    name: "pattern",
    kind: "string",
    defaultText: "the certificate's DNS SANs",
    check: (value: string) =>
      /^(\*\.)?([a-z0-9_]([a-z0-9_-]*[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?$/i.test(value)
        ? undefined
        : `${JSON.stringify(value)} is neither a DNS name nor *.<domain>`,
    help:
      "DNS name, or the one-label wildcard `*.<domain>`. Exact rules beat wildcards, longer suffixes " +
      "shorter ones.",
  },
  { name: "certificate", kind: "string", path: true, help: "PEM certificate chain." },
  { name: "key", kind: "string", path: true, help: "Matching PEM private key." },
];

const INGRESS_FIELDS: readonly Field[] = [
  {
    name: "mode",
    kind: "string",
    defaultText: "off",
    choices: ["", "off", "native", "emulate"],
    help: "`native` uses the cluster's ingress controller, `emulate` ends ingress locally.",
  },
  {
    name: "controller",
    kind: "block",
    title: "IngressController",
    fields: CONTROLLER_FIELDS,
    defaultText: "discovered",
    help: "Service of the native controller.",
  },
  {
    name: "ca-file",
    kind: "string",
    path: true,
    pem: "certificate",
    defaultText: "generated",
    help: "CA certificate that signs fallback certificates in emulate mode.",
  },
  {
    name: "ca-key-file",
    kind: "string",
    path: true,
    pem: "key",
    defaultText: "generated",
    help: "Private key of `ca-file`.",
  },
  {
    name: "certificates",
    kind: "blocks",
    title: "IngressCertificate",
    fields: CERTIFICATE_FIELDS,
    together: (block) => {
      const field = ["certificate", "key"].find((name) => block[name] === undefined);
      return field === undefined ? undefined : { field, why: "missing" };
    },
    help: "Ordered rules of certificates of one's own, for emulated and native ingress.",
  },
];

export const CONDUIT_FIELDS: readonly Field[] = [
  {
    name: "mode",
    kind: "string",
    defaultText: "port-forward",
    choices: ["port-forward", "socks5"],
    help: "`port-forward` (each port by itself) or `socks5` (one local split-tunnel proxy).",
  },
  {
    name: "socks5",
    kind: "block",
    title: "Socks5",
    fields: SOCKS5_FIELDS,
    help: "Consulted where mode is `socks5`, and by `svc socks5`.",
  },
  {
    name: "ingress",
    kind: "block",
    title: "Ingress",
    fields: INGRESS_FIELDS,
    together: pair("ca-file", "ca-key-file"),
    help: "Native or emulated ingress, and server certificates of one's own.",
  },
];
