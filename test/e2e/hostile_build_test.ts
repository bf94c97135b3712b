/** A Dockerfile from anybody does not stop the server for everybody. */
import assert from "node:assert/strict";
import { withContext } from "./build_helpers.ts";
import { e2eTest, type Server, startServer } from "./harness.ts";

const NEEDS = { root: true, commands: ["runc"] };

/** Milliseconds that the thread which answers has worked. */
async function worked({ pid }: Server): Promise<number> {
  const stat = await Deno.readTextFile(`/proc/${pid}/task/${pid}/stat`);
  const [user, system] = stat.slice(stat.lastIndexOf(")") + 2).split(" ").slice(11, 13).map(Number);
  return (user + system) * 10;
}

/**
 * The longest that the server worked before it said that it lives, in milliseconds, while `work` ran. How long others
 * kept the processor is not in it.
 */
async function longestSilence(server: Server, work: () => Promise<unknown>): Promise<number> {
  let longest = 0;
  let over = false;
  const asking = (async () => {
    while (!over) {
      const began = await worked(server);
      const reply = await fetch(`http://${server.host}/healthz`);
      await reply.body?.cancel();
      assert.equal(reply.status, 200);
      longest = Math.max(longest, await worked(server) - began);
      await new Promise((next) => setTimeout(next, 5));
    }
  })();
  try {
    await work();
  } finally {
    over = true;
    await asking;
  }
  return longest;
}

const HOSTILE: [name: string, dockerfile: string, line: number | undefined][] = [
  [
    "a pattern of many stars",
    `FROM scratch\nENV A=${"a".repeat(3000)}\nENV B=\${A//*a*a*a*b/}\n`,
    undefined,
  ],
  ["all ports, 40 times", `FROM scratch\n${"EXPOSE 1-65535/udp\n".repeat(40)}`, 4],
  [
    "variables that grow",
    `FROM scratch\nENV A=${"a".repeat(1000)}\n${"ENV A=$A$A\n".repeat(9)}${
      "RUN true\n".repeat(450)
    }`,
    42,
  ],
  ["501 layers", `FROM scratch\n${"WORKDIR /a\nWORKDIR /b\n".repeat(300)}`, 502],
];

e2eTest(
  "hostile Dockerfiles: the build fails with its line, the server answers",
  NEEDS,
  async () => {
    await using server = await startServer();
    await withContext({ Dockerfile: "FROM scratch\n" }, async (folder) => {
      await server.svc(["build", folder]);
      for (const [name, dockerfile, line] of HOSTILE) {
        await Deno.writeTextFile(`${folder}/Dockerfile`, dockerfile);
        const longest = await longestSilence(server, async () => {
          const { code, stderr } = await server.svc(["build", "--progress", "plain", folder]);
          if (line === undefined) return assert.equal(code, 0, stderr);
          assert.equal(code, 1);
          assert.match(stderr, new RegExp(`line ${line}: `), name);
        });
        // It is a tenth of that.
        assert.ok(longest < 1000, `${name}: no answer for ${longest} ms of work`);
      }
    });
  },
);
