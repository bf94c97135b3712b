/** SPEC "General and listener": the server that builds are sent to if this process does not run them. */
import { urlOf, visible } from "../checks.ts";
import { optionTable } from "../table.ts";

const section = "General and listener";

export const DELEGATION = optionTable([
  {
    key: "builderUrl",
    kind: "string",
    flag: "builder-url",
    env: ["SVC_BUILDER_URL"],
    placeholder: "URL",
    section,
    help:
      "Delegate builds to an upstream builder, ws://[TOKEN@]HOST:PORT, instead of building in-process. " +
      "SVC_BUILDER_TOKEN is the other place for the token.",
    check: urlOf("ws", "wss"),
  },
  {
    key: "builderToken",
    kind: "string",
    env: ["SVC_BUILDER_TOKEN"],
    section,
    help:
      "Bearer token that this server sends to the builder of SVC_BUILDER_URL. The token's identity " +
      "needs the action build there.",
    check: visible,
  },
  {
    key: "builderAuto",
    kind: "bool",
    flag: "builder-auto",
    negatable: true,
    env: ["SVC_BUILDER_AUTO"],
    default: true,
    section,
    help: "Start a privileged builder container where the in-process engine cannot run and no " +
      "builder URL is set, through the Docker daemon of this host (DOCKER_HOST).",
  },
  {
    key: "builderImage",
    kind: "string",
    flag: "builder-image",
    env: ["SVC_BUILDER_IMAGE"],
    defaultText: "self-built",
    placeholder: "IMAGE",
    section,
    help:
      "Pin a published image as the builder instead of building one from the running binary. The image " +
      "must have svc and runc on its PATH.",
  },
  {
    key: "builderBaseImage",
    kind: "string",
    flag: "builder-base-image",
    env: ["SVC_BUILDER_BASE_IMAGE"],
    defaultText: "host distribution",
    placeholder: "IMAGE",
    section,
    help:
      "Base image for the self-built builder image. The executable has to run in it; runc and the " +
      "programs that builds need are installed where they are absent.",
  },
]);
