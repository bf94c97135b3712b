/** A Dockerfile from anybody does not stop the server for everybody. */
import assert from "node:assert/strict";
import { withContext } from "./build_helpers.ts";
import { e2eTest, type Server, startServer } from "./harness.ts";

const NEEDS = { root: true, commands: ["runc"] };

/** The longest that the server took to say that it lives, in milliseconds, while `work` ran. */
async function longestSilence(server: Server, work: () => Promise<unknown>): Promise<number> {
  let longest = 0;
  let over = false;
  const asking = (async () => {
    while (!over) {
      const began = performance.now();
      const reply = await fetch(`http://${server.host}/healthz`);
      await reply.body?.cancel();
      assert.equal(reply.status, 200);
      longest = Math.max(longest, performance.now() - began);
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
        console.log(`${name}: ${Math.round(longest)} ms`);
        // On a machine with nothing else to do it is a tenth of that.
        assert.ok(longest < 1000, `${name}: no answer for ${longest} ms`);
      }
    });
  },
);
