/** Whether a daemon is an ordinary user's. */
import type { Daemon, DockerClient } from "./client.ts";

/** A daemon that was lost is asked again: it is another object then. */
const rootless = new WeakMap<Daemon, Promise<boolean>>();

interface Info {
  SecurityOptions?: string[] | null;
  /** Podman's: its fourth version says it here alone. */
  Rootless?: boolean;
}

async function ask(client: DockerClient, attempted: string): Promise<boolean> {
  const { SecurityOptions, Rootless } = await client.json<Info>({ path: "/info", attempted });
  return Rootless ?? SecurityOptions?.includes("name=rootless") ?? false;
}

/** Asks once. */
export async function isRootless(client: DockerClient, attempted: string): Promise<boolean> {
  const daemon = await client.daemon();
  const asked = rootless.get(daemon) ?? ask(client, attempted);
  rootless.set(daemon, asked);
  asked.catch(() => rootless.delete(daemon));
  return await asked;
}
