/** The contract of deploy backends, by Docker 20.10. */
import { DOCKERHOST_FIELDS } from "../../backends/deploy/dockerhost/fields.ts";
import { requireTools } from "../e2e/harness.ts";
import { deployContract } from "./deploy_suite.ts";
import { dockerhostFixture } from "./dockerhost_fixture.ts";

const COMMANDS = ["dockerd", "docker", "busybox", "unshare", "nsenter", "ip", "iptables"];

const LATER = "the backend does not do it yet";

deployContract({
  name: "dockerhost, Docker 20.10",
  ...requireTools({ root: true, commands: COMMANDS }),
  fields: DOCKERHOST_FIELDS,
  lacks: {
    attach: LATER,
    files: LATER,
    stats: LATER,
    signal: LATER,
    pause: LATER,
    top: LATER,
    volumes: LATER,
    networks: LATER,
  },
  open: dockerhostFixture,
});
