/** The SSH agent of the caller of an attached session. */
import type { Found } from "../../api/build_session.ts";
import { fromProblem } from "../../api/problem.ts";
import { SvcError } from "../../base/errors.ts";
import type { AgentConnect } from "../../deploy/caps.ts";
import type { Attached } from "../../wire/attached/session.ts";
import { LineReader } from "../../wire/lines.ts";

/** Connects to the agent that the caller offers; each connection is a stream of its session. */
export function agentOf(session: Attached): AgentConnect {
  return async () => {
    const stream = session.open("ssh", { id: "default" });
    const lines = new LineReader(stream);
    try {
      const answer = await lines.line<Found>();
      if (answer?.found === true) {
        return {
          read: () => lines.read(),
          write: (bytes) => stream.write(bytes),
          closeWrite: () => stream.closeWrite(),
          reset: () => stream.reset(),
        };
      }
      if (answer?.error) throw fromProblem(answer.error);
      throw new SvcError("not_found", "Cannot use the caller's SSH agent: there is none");
    } catch (error) {
      stream.reset();
      throw error;
    }
  };
}
