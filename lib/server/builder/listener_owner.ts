/** Whose the process is that listens on a port of this host's loopback address. */

/** The state of a listening socket in /proc/net/tcp (include/net/tcp_states.h). */
const LISTEN = "0A";

/**
 * The user id of the socket that a connection to 127.0.0.1:`port` ends at, in the text of /proc/net/tcp; undefined
 * where nobody listens.
 */
export function ownerIn(text: string, port: number): number | undefined {
  const hex = port.toString(16).toUpperCase().padStart(4, "0");
  const owners = new Map<string, number>();
  for (const line of text.split("\n").slice(1)) {
    const [, local, , state, , , , uid] = line.trim().split(/\s+/);
    if (state === LISTEN) owners.set(local, Number(uid));
  }
  // The more exact address wins, as it does in the kernel.
  return owners.get(`0100007F:${hex}`) ?? owners.get(`00000000:${hex}`);
}

/**
 * The user id of the listener on 127.0.0.1:`port`. An address in use tells nothing of who answers there, and what
 * a builder is sent must not reach another user of this host.
 */
export async function listenerOwner(port: number): Promise<number | undefined> {
  return ownerIn(await Deno.readTextFile("/proc/net/tcp"), port);
}
