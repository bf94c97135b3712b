/** Labels by which containerd's restart monitor starts containers again, whether a server runs or not. */
import { Capabilities, Workloads } from "../../../lib/containerd/workload_api.ts";
import type { ContainerdClient } from "../../../lib/containerd/client.ts";
import { orMissing } from "../../../lib/containerd/writing.ts";
import type { EngineRestart } from "../../../lib/deploy/host/engine.ts";

const label = (name: string) => `containerd.io/restart.${name}`;
const [STATUS, POLICY, LOG, COUNT, STOPPED] = [
  ...["status", "policy", "loguri", "count", "explicitly-stopped"],
].map(label);

export class RestartLabels {
  readonly #client: ContainerdClient;
  #policies: Promise<readonly string[]> | undefined;

  constructor(client: ContainerdClient) {
    this.#client = client;
  }

  /** Has the monitor keep the container running by that policy. Does nothing where the monitor cannot. */
  async arm(key: string, restart: EngineRestart, logURI: string): Promise<void> {
    const { policy, maxAttempts, tty } = restart;
    // Its shim needs a terminal for such a container, which the monitor does not ask for.
    if (tty) return;
    // containerd before 1.7 starts everything again, also what has ended well.
    if (policy === "on-failure" && !(await this.#known()).includes(policy)) return;
    await this.#set(key, {
      [STATUS]: "running",
      [POLICY]: maxAttempts === undefined ? policy : `${policy}:${maxAttempts}`,
      [LOG]: logURI,
      [COUNT]: "",
      [STOPPED]: "",
    });
  }

  /** The container stays as it is from now on. */
  async disarm(key: string): Promise<void> {
    await this.#set(key, { [STATUS]: "", [STOPPED]: "true" });
  }

  async #set(id: string, labels: Record<string, string>): Promise<void> {
    const mask = { paths: Object.keys(labels).map((key) => `labels.${key}`) };
    await orMissing(
      this.#client.call(
        Workloads.update,
        { container: { id, labels }, mask },
        `Cannot label container ${id}`,
      ),
    );
  }

  /** The policies that the monitor knows by name. */
  #known(): Promise<readonly string[]> {
    return this.#policies ??= (async () => {
      const input = { filters: ["id==restart"] };
      const { plugins } = await this.#client.call(Capabilities, input, "Cannot look for plugins");
      return plugins.flatMap(({ capabilities }) => capabilities);
    })().catch((error) => {
      this.#policies = undefined;
      throw error;
    });
  }
}
