/** What tests of companions share: a workload that only its companion reaches, and a caller's SSH agent. */
import { join } from "node:path";
import { eventually } from "../waits.ts";
import { endProcess, EXECUTABLE, freePort, runTool, type Server } from "./harness.ts";

/** The SSH client of this machine, with its libraries. */
export async function sshFiles(): Promise<Set<string>> {
  const programs = ["/usr/bin/ssh-add", "/usr/bin/ssh"];
  const { stdout: listed } = await runTool("ldd", programs);
  const libraries = [...listed.matchAll(/(\/\S+) \(0x/g)].map(([, path]) => path);
  return new Set([...programs, ...libraries]);
}

/** An agent with one key, of the caller. */
export async function startAgent(folder: string) {
  const path = join(folder, "agent.sock");
  const key = join(folder, "key");
  await runTool("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", "callers-key", "-f", key]);
  const child = new Deno.Command("ssh-agent", { args: ["-D", "-a", path], stdout: "null" }).spawn();
  await eventually("the agent", async () => {
    await runTool("ssh-add", ["-q", key], { env: { SSH_AUTH_SOCK: path } });
    return true;
  });
  return {
    path,
    key: (await Deno.readTextFile(key)).split("\n")[1],
    async [Symbol.asyncDispose]() {
      child.kill();
      await child.status;
    },
  };
}

/** The socket of an agent goes a moment after the command that it was for; without one there is none. */
export const withoutAgent = (server: Server, folder: string) =>
  eventually("no socket of an agent is left", async () => {
    const script = `ls -a ${folder}; echo $SSH_AUTH_SOCK`;
    const { stdout } = await server.svc(["exec", "web", "sh", "-c", script]);
    return stdout.trim() === ".\n..";
  });

/** Listens on its loopback alone: nobody but its companion reaches it. */
export const webSpec = (version: string) =>
  JSON.stringify({
    name: "web",
    image: "app:1",
    command: [
      "/bin/sh",
      "-c",
      "mkdir -p /www; echo $VERSION > /www/index.html; exec httpd -f -p 127.0.0.1:8080 -h /www",
    ],
    env: { VERSION: version },
    stopSignal: "SIGKILL",
  });

/** What the workload answers through the server's forwarded port. */
export async function answer(server: Server, name = "web"): Promise<string> {
  const port = freePort();
  const child = new Deno.Command(EXECUTABLE, {
    args: ["port-forward", "--server", server.url, name, `${port}:8080`],
    stdout: "null",
    stderr: "null",
  }).spawn();
  try {
    return await eventually("the forwarded port", async () => {
      const response = await fetch(`http://127.0.0.1:${port}/`);
      return response.ok ? (await response.text()).trim() : false;
    });
  } finally {
    endProcess(child);
    await child.status;
  }
}
