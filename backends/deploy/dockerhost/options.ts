/** SPEC "Deploy backend (common)", and the variables of docker's own client. */
import { BUILD } from "../../../lib/config/server/build.ts";
import { CONTAINED } from "../../../lib/config/server/general.ts";
import { WORKLOADS } from "../../../lib/config/server/workloads.ts";
import { optionTable, type SettingsOf } from "../../../lib/config/table.ts";

const section = "Docker backend";

export const DOCKERHOST = optionTable([
  {
    key: "dockerHost",
    kind: "string",
    env: ["DOCKER_HOST"],
    defaultText: "unix:///var/run/docker.sock",
    section,
    help: "The Docker daemon: unix://PATH, tcp://HOST:PORT or ssh://[USER@]HOST[:PORT][/SOCKET].",
  },
  {
    key: "dockerTlsVerify",
    kind: "string",
    env: ["DOCKER_TLS_VERIFY"],
    section,
    help: "Any value: TCP uses TLS, and the daemon's certificate is verified.",
  },
  {
    key: "dockerCertPath",
    kind: "string",
    env: ["DOCKER_CERT_PATH"],
    section,
    help: "Folder with ca.pem, cert.pem and key.pem, for TLS.",
  },
  {
    key: "dockerRemote",
    kind: "bool",
    env: ["SVC_DOCKER_REMOTE"],
    default: false,
    section,
    help:
      "A companion beside each instance, for a daemon on another host: svc port-forward, tunnels and " +
      "svc exec --forward-agent go through it. Needs SVC_AGENT_IMAGE and SVC_ADVERTISE_URL.",
  },
]);

/** The options that the backend reads. */
export const DOCKERHOST_READS = [DOCKERHOST, BUILD, WORKLOADS, CONTAINED] as const;

export type DockerhostSettings = SettingsOf<typeof DOCKERHOST_READS>;
