/** What every DeployBackend gives back as it was given: bytes of logs, where it came from, names. */
import assert from "node:assert/strict";
import { printedBytes } from "../../lib/api/log_bytes.ts";
import { eventually } from "../waits.ts";
import type { DeployBackendUnderTest, Need, Test } from "./deploy_suite.ts";
import { execute, quickSpec } from "./deploy_tools.ts";

/** Prints every byte, lines longer than any buffer, in a script of three-byte characters, and no last newline. */
const PRINT = String.raw`printf '\000\001\002\377\376\r\n\r\n\n'
i=0; while [ $i -lt 12000 ]; do printf '☃'; i=$((i+1)); done
printf '\r\nend'`;

export function deployDetails(test: Test, under: DeployBackendUnderTest): void {
  const { backend, image } = under;
  const withNames = (
    title: string,
    names: string[],
    needs: readonly Need[],
    fn: () => Promise<void>,
  ) =>
    test(title, needs, async () => {
      try {
        await fn();
      } finally {
        for (const name of names) await backend().delete(name);
      }
    });

  const printed = ["spec.restart", "logs.bytes"] as const;
  withNames("logs are the bytes that were printed", ["bytes"], printed, async () => {
    await backend().apply(
      quickSpec("bytes", image, { command: ["sh", "-c", PRINT], restart: "no" }),
    );
    const expected = new Blob([
      new Uint8Array([0, 1, 2, 255, 254, 13, 10, 13, 10, 10]),
      "☃".repeat(12000),
      "\r\nend",
    ]);
    for (const follow of [true, false]) {
      const frames = await Array.fromAsync(backend().logs("bytes", { follow }));
      assert.deepEqual(
        await new Blob(frames.flat().map(printedBytes)).bytes(),
        await expected.bytes(),
      );
    }
  });

  withNames("where it was deployed from comes back", ["from"], [], async () => {
    const origin = { project: "shop", git: { branch: "main", dirty: true }, subject: "ci" };
    const { deployment } = await backend().apply(quickSpec("from", image, { origin }));
    assert.deepEqual(deployment.origin, origin);
    const later = { project: "shop", subject: "other" };
    await backend().apply(quickSpec("from", image, { origin: later }));
    await under.reopen();
    assert.deepEqual((await backend().status("from"))?.origin, later);
    assert.deepEqual((await backend().list())[0].origin, later);
  });

  withNames(
    "names and homes that a spec gives stay",
    ["given"],
    ["exec"],
    async () => {
      const env = { HOSTNAME: "given", HOME: "/given" };
      await backend().apply(quickSpec("given", image, { env }));
      const command = ["sh", "-c", "echo $HOSTNAME $HOME $(id -u)"];
      const asked = await execute(backend(), "given", { command, user: "user" });
      assert.equal(asked.stdout, "given /given 1000\n");
    },
  );

  withNames(
    "a command of another user has the groups that a spec adds",
    ["groups"],
    ["exec", "spec.groupAdd", "exec.groups"],
    async () => {
      await backend().apply(quickSpec("groups", image, { groupAdd: ["77"] }));
      const asked = await execute(backend(), "groups", { command: ["id", "-G"], user: "user" });
      assert.equal(asked.stdout, "1000 77\n");
    },
  );

  withNames("deployments on one network know each other by name", ["named", "peer"], [
    "exec",
    "spec.networks[].name",
  ], async () => {
    const networks = ["front"];
    const served = (text: string) => ({
      networks,
      command: ["sh", "-c", `echo ${text} > /srv/index.html; exec httpd -f -p 8080 -h /srv`],
    });
    const fetched = async () => {
      const command = ["wget", "-q", "-O", "-", "http://named:8080/"];
      return (await execute(backend(), "peer", { command })).stdout.trim();
    };
    await backend().apply(quickSpec("named", image, served("first")));
    await backend().apply(quickSpec("peer", image, { networks, command: ["sleep", "1000"] }));
    await eventually("an answer", async () => await fetched() === "first");
    await backend().apply(quickSpec("named", image, served("second")));
    await eventually("another's answer", async () => await fetched() === "second");
  });
}
