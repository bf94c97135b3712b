/** A socket in front of an engine's, at which requests are counted and the server is killed. */
import { connect, createServer, type Socket } from "node:net";
import assert from "node:assert/strict";
import { type EngineKind, serverCommand, type Steps } from "./crash_deploy.ts";

/** What only asks changes nothing: a kill there is one after the change before it. */
const CHANGES = /^(POST|PUT|PATCH|DELETE) (\S+) HTTP\/1\.1\r\n/;
/** An exec of a probe, which changes nothing either. */
const PROBE = /\/exec(\/|\?|$| )|\/exec$/;

/** When the server ends: before a request is passed on, or while the engine is at it. */
type Moment = "before" | "during";

interface Kill {
  left: number;
  moment: Moment;
  kill(): void;
}

export interface EngineFront extends AsyncDisposable {
  /** Kills of a server at its requests, of which each has a connection of its own. */
  steps(engine: EngineKind, place: unknown, moment: Moment): Steps;
}

export async function engineFront(path: string, daemon: string): Promise<EngineFront> {
  let now: Kill | undefined;
  const open = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connect(daemon);
    client.on("data", (bytes: Uint8Array) => {
      const request = CHANGES.exec(new TextDecoder("latin1").decode(bytes.subarray(0, 2000)));
      if (request && !PROBE.test(request[2]) && now && --now.left === 0) {
        now.kill();
      }
      if (now && now.left <= 0 && now.moment === "before") return;
      upstream.write(bytes);
    });
    upstream.on("data", (bytes) => client.write(bytes));
    for (const [one, other] of [[client, upstream], [upstream, client]]) {
      open.add(one);
      one.on("error", () => other.destroy());
      one.on("end", () => other.end());
      one.on("close", () => {
        open.delete(one);
        // What was passed on arrives.
        other.end(() => other.destroy());
      });
    }
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  return {
    steps: (engine, place, moment) => ({
      name: `${moment} each request`,
      async run(what, step) {
        const [program, ...args] = serverCommand(engine, place, what);
        const child = new Deno.Command(program, {
          args,
          stdin: "null",
          stdout: "inherit",
          stderr: "inherit",
        }).spawn();
        let killed = false;
        now = {
          ...{ left: step, moment },
          kill() {
            if (!killed) child.kill("SIGKILL");
            killed = true;
          },
        };
        const { code } = await child.status;
        now = undefined;
        assert.ok(killed || code === 0, `exit code ${code}`);
        return !killed;
      },
    }),
    [Symbol.asyncDispose]: async () => {
      for (const one of open) one.destroy();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}
