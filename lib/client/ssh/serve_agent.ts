/** Lets the server use this caller's SSH agent on one stream: the protocol alone travels, never a key. */
import type { Found } from "../../api/build_session.ts";
import { toProblem } from "../../api/problem.ts";
import { asSvcError } from "../../base/errors.ts";
import type { Duplex } from "../../wire/duplex.ts";
import { writeLine } from "../../wire/lines.ts";

/** A connection to an SSH agent. */
export type ConnectAgent = () => Promise<Duplex>;

/** Answers whether there is such an agent, and joins the stream with it until either side ends. */
export async function serveAgent(
  stream: Duplex,
  id: string,
  connect: ConnectAgent | undefined,
): Promise<void> {
  if (!connect) return await writeLine(stream, { found: false } satisfies Found);
  let agent: Duplex;
  try {
    agent = await connect();
  } catch (error) {
    const problem = toProblem(asSvcError(error, `Cannot reach SSH agent ${id}`));
    return await writeLine(stream, { found: false, error: problem } satisfies Found);
  }
  try {
    await writeLine(stream, { found: true } satisfies Found);
    const incoming = pump(stream, agent).finally(() => agent.closeWrite());
    // When one side ends, both end: the agent protocol has no half-close.
    await Promise.race([incoming, pump(agent, stream)]);
  } finally {
    agent.reset();
  }
}

async function pump(from: Pick<Duplex, "read">, to: Pick<Duplex, "write">): Promise<void> {
  for (let chunk = await from.read(); chunk; chunk = await from.read()) await to.write(chunk);
}
