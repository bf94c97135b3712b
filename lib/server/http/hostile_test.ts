/** What the wire must not make of a request: two of one, another one, or memory without end. */
import assert from "node:assert/strict";
import { connect } from "node:net";
import { Reply } from "../../api/reply.ts";
import { type Handler, listen } from "../listener.ts";
import { parseSimpleHead } from "./head.ts";
import { cpuTime } from "../../../test/fixtures/cpu_time.ts";

const P = "POST /v2/a/blobs/uploads/ HTTP/1.1\r\nHost: h\r\n";
const G = "GET /v2/ HTTP/1.1\r\nHost: h\r\n";
/** What somebody would like to be read as a second request. */
const EVIL = "GET /evil HTTP/1.1\r\nHost: h\r\n\r\n";

/** Everything that comes back until the server ends the connection, or has answered `answers` times. */
function exchange(port: number, text: string, answers: number): Promise<string> {
  return new Promise((resolve) => {
    let all = "";
    const socket = connect(port, "127.0.0.1", () => socket.write(text, "latin1"));
    socket.on("data", (bytes) => {
      all += bytes.toString("latin1");
      // The handler's answers end with it; what the listener refuses it closes.
      if (all.split("</answer>").length > answers) socket.destroy();
    });
    socket.on("error", () => {/* "close" follows */});
    socket.on("close", () => resolve(all));
  });
}

const statuses = (text: string) =>
  [...text.matchAll(/^HTTP\/1\.1 (\d+)/gm)].map((m) => Number(m[1]));

/** By name: what is sent, and the statuses of the answers. */
const CASES: Record<string, [text: string, ...statuses: number[]]> = {
  "length and chunks": [
    `${P}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${EVIL}`,
    400,
  ],
  "chunks and length": [
    `${P}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n${EVIL}`,
    400,
  ],
  "two lengths": [`${P}Content-Length: 5\r\nContent-Length: 6\r\n\r\n01234${EVIL}`, 400],
  "a length twice": [`${P}Content-Length: 5\r\nContent-Length: 5\r\n\r\n01234${EVIL}`, 400],
  "a list of lengths": [`${P}Content-Length: 5, 5\r\n\r\n01234${EVIL}`, 400],
  "a length with a sign": [`${P}Content-Length: +5\r\n\r\n01234${EVIL}`, 400],
  "a negative length": [`${P}Content-Length: -5\r\n\r\n01234${EVIL}`, 400],
  "a hexadecimal length": [`${P}Content-Length: 0x5\r\n\r\n01234${EVIL}`, 400],
  "an empty length": [`${P}Content-Length: \r\n\r\n${EVIL}`, 400],
  "a length beyond numbers": [`${P}Content-Length: 99999999999999999999999\r\n\r\n${EVIL}`, 400],
  "coding identity": [`${P}Transfer-Encoding: identity\r\n\r\n${EVIL}`, 400],
  "an unknown coding": [`${P}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n${EVIL}`, 400],
  "chunks inside a coding": [
    `${P}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n${EVIL}`,
    400,
  ],
  "a coding inside chunks": [`${P}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n${EVIL}`, 501],
  "two codings": [
    `${P}Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${EVIL}`,
    501,
  ],
  "a coding behind a vertical tab": [
    `${P}Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n${EVIL}`,
    400,
  ],
  "a blank before the colon": [`${P}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n${EVIL}`, 400],
  "a folded field": [`${G}x-a: 1\r\n folded\r\n\r\n${EVIL}`, 400],
  "a folded coding": [`${P}Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n${EVIL}`, 400],
  "a first field that is folded": [`GET /v2/ HTTP/1.1\r\n Host: h\r\n\r\n${EVIL}`, 400],
  "lines that end with LF": [`GET /v2/ HTTP/1.1\nHost: h\n\n${EVIL}`, 400],
  "a field that ends with LF": [`${G}x: 1\nTransfer-Encoding: chunked\r\n\r\n${EVIL}`, 400],
  "a field that ends with CR": [`${G}x: 1\rTransfer-Encoding: chunked\r\n\r\n${EVIL}`, 400],
  "a zero byte in a value": [`${G}x: a\0b\r\n\r\n${EVIL}`, 400],
  "a zero byte in a name": [`${G}x\0y: b\r\n\r\n${EVIL}`, 400],
  "no version": ["GET /v2/\r\n\r\n", 505],
  "another version": ["GET /v2/ HTTP/2.0\r\nHost: h\r\n\r\n", 505],
  "chunks of an old version": [
    "POST /v2/a/blobs/uploads/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + EVIL,
    400,
  ],
  "no host": [`GET /v2/ HTTP/1.1\r\n\r\n${EVIL}`, 400],
  "no host alone": ["GET /v2/ HTTP/1.1\r\n\r\n", 400],
  "two hosts": [`${G}Host: i\r\n\r\n${EVIL}`, 400],
  "a host that is none": [`GET /v2/ HTTP/1.1\r\nHost: a/../b\r\n\r\n${EVIL}`, 400],
  "an address that is none": ["GET /v2/ HTTP/1.1\r\nHost: 127.999.1.1\r\n\r\n", 400],
  "a port that is none": ["GET /v2/ HTTP/1.1\r\nHost: h:99999\r\n\r\n", 400],
  "a host that is none alone": ["GET /v2/ HTTP/1.1\r\nHost: u@h\r\n\r\n", 400],
  "a backslash in the path": [`GET /v2\\..\\evil HTTP/1.1\r\nHost: h\r\n\r\n${EVIL}`, 400],
  "a backslash alone": ["POST /v2/a\\blobs/uploads/ HTTP/1.1\r\nHost: h\r\n\r\n", 400],
  "a blank in the path": [`GET /v2/ /evil HTTP/1.1\r\nHost: h\r\n\r\n${EVIL}`, 400],
  "a chunk size that overflows": [
    `${P}Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\na`,
    400,
  ],
  "a negative chunk size": [`${P}Transfer-Encoding: chunked\r\n\r\n-1\r\nabc${EVIL}`, 400],
  "a chunk size with 0x": [
    `${P}Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n${EVIL}`,
    400,
  ],
  "a chunk longer than said": [
    `${P}Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n${EVIL}`,
    400,
  ],
  "chunk lines that end with LF": [`${P}Transfer-Encoding: chunked\r\n\r\n1\na\n0\n\n${EVIL}`, 400],
  "a chunk extension with LF": [
    `${P}Transfer-Encoding: chunked\r\n\r\n1;a=b\nxx\r\na\r\n0\r\n\r\n${EVIL}`,
    400,
  ],
  "a head beyond all bounds": [`${G}x: ${"a".repeat(200_000)}\r\n\r\n`, 431],
};

Deno.test("hostile heads and bodies are refused, and what follows them is not a request", async () => {
  const seen: string[] = [];
  const handler: Handler = async (request) => {
    seen.push(new URL(request.url).pathname);
    await request.text().catch(() => "");
    return new Response("</answer>");
  };
  const listener = await listen({ hostname: "127.0.0.1", port: 0 }, handler);
  try {
    for (const [name, [text, ...expected]] of Object.entries(CASES)) {
      const answer = await exchange(listener.address.port, text, 2);
      const got = statuses(answer);
      // A body that turns out malformed may have been begun to be answered; it ends the connection then.
      const begun = got.length === 0 ||
        got.length === 1 && got[0] === 200 && name.includes("chunk");
      if (!begun) assert.deepEqual(got, expected, name);
      assert.ok(!seen.includes("/evil"), `${name}: a second request was read`);
    }
  } finally {
    await listener.close();
  }
});

Deno.test("requests that may follow each other do", async () => {
  const handler: Handler = async (request) => new Response(`${await request.text()}</answer>`);
  const listener = await listen({ hostname: "127.0.0.1", port: 0 }, handler);
  const cases: Record<string, [text: string, body: RegExp]> = {
    "chunks, in capitals": [
      `${P}TRANSFER-ENCODING: CHUNKED\r\n\r\n1\r\na\r\n0\r\n\r\n${G}\r\n`,
      /a<\//,
    ],
    "an extension": [
      `${P}Transfer-Encoding: chunked\r\n\r\n1;a=b\r\na\r\n0\r\n\r\n${G}\r\n`,
      /a<\//,
    ],
    "a GET with a body": [`${G}Content-Length: ${EVIL.length}\r\n\r\n${EVIL}${G}\r\n`, /\/evil/],
    "a GET with chunks": [
      `${G}Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n${G}\r\n`,
      /a<\//,
    ],
    "blank lines before": [`\r\n${G}\r\n${G}\r\n`, /<\//],
  };
  try {
    for (const [name, [text, body]] of Object.entries(cases)) {
      const answer = await exchange(listener.address.port, text, 2);
      assert.deepEqual(statuses(answer), [200, 200], name);
      assert.match(answer, body, name);
    }
  } finally {
    await listener.close();
  }
});

Deno.test("a head of blanks is read as fast as any", () => {
  const value = `${" ".repeat(16_000)}\x01`;
  const measure = (text: string) => {
    const start = cpuTime();
    for (let n = 0; n < 20; n++) parseSimpleHead(text);
    return cpuTime() - start;
  };
  measure(`${G}x: a\r\n\r\n`);
  // In quadratic time this took 5 s; in linear time it takes a few milliseconds.
  assert.ok(measure(`${G}x:${value}\r\n\r\n`) < 2500);
});

for (const pipelined of [false, true]) {
  Deno.test(`answers that nobody takes hold up further ones, ${pipelined ? "pipelined" : "one by one"}`, async () => {
    const body = new Uint8Array(60_000);
    let answered = 0;
    const listener = await listen({ hostname: "127.0.0.1", port: 0 }, () => {
      answered++;
      return Promise.resolve(new Reply(200, { "content-length": String(body.length) }, body));
    });
    const socket = connect(listener.address.port, "127.0.0.1");
    socket.on("error", () => {/* it is cut at the end */});
    socket.pause();
    try {
      await new Promise<void>((resolve) => socket.once("connect", () => resolve()));
      socket.setNoDelay(true);
      const count = 2000;
      if (pipelined) socket.write(`${G}\r\n`.repeat(count));
      let quiet = 0;
      for (let last = -1; quiet < 50; await new Promise((resolve) => setTimeout(resolve, 2))) {
        quiet = answered === last ? quiet + 1 : 0;
        last = answered;
        if (!pipelined && answered < count && quiet < 40) socket.write(`${G}\r\n`);
      }
      // The kernel's buffers take some megabytes; all answers would be 120.
      assert.ok(answered < count / 2, `${answered} answers`);
    } finally {
      socket.destroy();
      await listener.close();
    }
  });
}
