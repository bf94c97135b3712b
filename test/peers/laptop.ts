/** A machine of a person: a network of its own, with one cable to the server's host, which can be cut. */
import { runTool } from "../e2e/harness.ts";
import { freeOuterNet } from "../fixtures/free_subnet.ts";

export interface Laptop extends AsyncDisposable {
  /** The address of the server's host, as this machine reaches it. */
  readonly host: string;
  /** Words that run a command on this machine. */
  readonly within: readonly string[];
  cable(state: "up" | "down"): Promise<void>;
}

export async function laptop(): Promise<Laptop> {
  const name = `l${crypto.randomUUID().slice(0, 6)}`;
  const third = freeOuterNet();
  const [host, own] = [1, 2].map((last) => `198.19.${third}.${last}`);
  const ip = (...args: string[]) => runTool("ip", args);
  await ip("netns", "add", name);
  await ip("link", "add", `${name}h`, "type", "veth", "peer", "name", "eth0", "netns", name);
  await ip("addr", "add", `${host}/24`, "dev", `${name}h`);
  await ip("link", "set", `${name}h`, "up");
  await ip("-n", name, "addr", "add", `${own}/24`, "dev", "eth0");
  for (const device of ["lo", "eth0"]) await ip("-n", name, "link", "set", device, "up");
  return {
    host,
    within: ["ip", "netns", "exec", name],
    cable: async (state) => void await ip("link", "set", `${name}h`, state),
    [Symbol.asyncDispose]: async () => void await ip("netns", "del", name),
  };
}
