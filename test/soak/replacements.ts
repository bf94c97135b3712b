/**
 * One deployment replaced again and again while clients ask its published port, one replica after the other: over a connection of its own
 * for each request, over kept ones, and with requests that take their time. None may fail or hang.
 *
 *     deno run -A test/soak/replacements.ts --seconds 300 --delay 3
 *     SVC_TEST_EXECUTABLE=OTHER/dist/svc deno run -A test/soak/replacements.ts
 */
import assert from "node:assert/strict";
import { parseArgs } from "node:util";
import { freePort } from "../fixtures/free_port.ts";
import { baseImage, type Server, startServer } from "../e2e/harness.ts";

export interface ReplacementsReport {
  replacements: number;
  requests: number;
  /** Milliseconds of the longest request but for those that are meant to take long. */
  longest: number;
  failures: string[];
}

/** How long the slow page takes, in seconds; above it a request hangs. */
const SLOW = 1;
const HANGS_MS = 1000;

/** What runs: it listens after `delay` seconds, and ends at once when it is told to. */
function spec(image: string, port: number, delay: number, version: number, replicas: number) {
  const slow = `#!/bin/sh\nsleep ${SLOW}\nprintf 'Content-type: text/plain\\r\\n\\r\\nslow'\n`;
  const script = `sleep ${delay}; mkdir /srv/cgi-bin; printf '%s' "$PAGE" > /srv/cgi-bin/slow; ` +
    `chmod 755 /srv/cgi-bin/slow; echo ${version} > /srv/index.html; exec httpd -f -p 8080 -h /srv`;
  return {
    name: "replaced",
    image,
    ports: [{ host: port, container: 8080 }],
    replicas,
    updateConfig: { parallelism: 1 },
    env: { PAGE: slow },
    stopSignal: "SIGKILL",
    command: ["sh", "-c", script],
  };
}

async function put(server: Server, body: { name: string }): Promise<void> {
  const answer = await fetch(`${server.url}/.svc/v1/deployments/${body.name}`, {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const text = await answer.text();
  assert.ok(answer.ok && !/"type":"error"/.test(text), text);
}

export async function soak(
  { seconds, delay, clients = 3, replicas = 1 }: {
    seconds: number;
    delay: number;
    clients?: number;
    replicas?: number;
  },
): Promise<ReplacementsReport> {
  await using server = await startServer();
  const { name } = await baseImage(server, "replaced:1");
  const port = freePort();
  const report: ReplacementsReport = { replacements: 0, requests: 0, longest: 0, failures: [] };
  let over = false, since = Date.now();
  const ask = async (path: string, limit: number, close: boolean) => {
    const began = Date.now();
    let problem = "";
    try {
      const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
        headers: close ? { connection: "close" } : {},
        signal: AbortSignal.timeout(10_000),
      });
      await answer.text();
      if (!answer.ok) problem = `status ${answer.status}`;
    } catch (error) {
      problem = (error as Error).message;
    }
    const took = Date.now() - began;
    report.requests++;
    if (limit === HANGS_MS) report.longest = Math.max(report.longest, took);
    if (!problem && took > limit) problem = "it hung";
    if (problem) {
      report.failures.push(
        `${path} ${close ? "own" : "kept"} connection: ${problem}, ${took} ms, begun ` +
          `${began - since} ms after replacement ${report.replacements}`,
      );
    }
  };
  await put(server, spec(name, port, 0, 0, replicas));
  for (const until = Date.now() + 30_000; Date.now() < until;) {
    if (await fetch(`http://127.0.0.1:${port}/`).then((r) => r.text(), () => "")) break;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const loop = async (path: string, limit: number, close: boolean) => {
    while (!over) {
      await ask(path, limit, close);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  };
  const load = [
    ...Array.from({ length: clients }, () => loop("/", HANGS_MS, true)),
    loop("/", HANGS_MS, false),
    loop("/cgi-bin/slow", SLOW * 1000 + HANGS_MS, true),
  ];
  try {
    for (const until = Date.now() + seconds * 1000; Date.now() < until;) {
      await put(server, spec(name, port, delay, report.replacements + 1, replicas));
      report.replacements++;
      since = Date.now();
    }
  } finally {
    over = true;
    await Promise.all(load);
  }
  return report;
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      seconds: { type: "string", default: "60" },
      delay: { type: "string", default: "3" },
      clients: { type: "string", default: "3" },
      replicas: { type: "string", default: "1" },
    },
  });
  const report = await soak({
    seconds: Number(values.seconds),
    delay: Number(values.delay),
    clients: Number(values.clients),
    replicas: Number(values.replicas),
  });
  console.log(JSON.stringify(report, null, 1));
  if (report.failures.length > 0) Deno.exit(1);
}
