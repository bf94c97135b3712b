import assert from "node:assert/strict";
import { usageOf } from "./usage.ts";

/** A cgroup whose files have these texts. */
const cgroup = (unified: boolean, texts: Record<string, string>) => ({
  unified,
  read: (controller: string, file: string) =>
    Promise.resolve(texts[unified ? file : `${controller}/${file}`]),
});

Deno.test("usage: the files of cgroup version 2", async () => {
  const usage = await usageOf(cgroup(true, {
    "cpu.stat": "usage_usec 1234\nuser_usec 1000\nsystem_usec 234\n",
    "memory.current": "10000\n",
    "memory.max": "max\n",
    "memory.stat": "anon 6000\nfile 4000\ninactive_file 3000\n",
    "io.stat": "8:0 rbytes=100 wbytes=20 rios=1\n253:0 rbytes=1 wbytes=2 dbytes=9\n",
  }));
  assert.deepEqual(usage, { cpu: 1_234_000, memory: 7000, blockRead: 101, blockWritten: 22 });
});

Deno.test("usage: the files of cgroup version 1", async () => {
  const usage = await usageOf(cgroup(false, {
    "cpuacct/cpuacct.usage": "777\n",
    "memory/memory.usage_in_bytes": "10000\n",
    "memory/memory.limit_in_bytes": "65536\n",
    "memory/memory.stat": "inactive_file 1\ntotal_inactive_file 4000\n",
    "blkio/blkio.throttle.io_service_bytes_recursive":
      "8:0 Read 5\n8:0 Write 6\n8:0 Total 11\n8:16 Read 1\nTotal 12\n",
  }));
  assert.deepEqual(usage, {
    cpu: 777,
    memory: 6000,
    memoryLimit: 65536,
    blockRead: 6,
    blockWritten: 6,
  });
});

Deno.test("usage: no limit of version 1, and files that are not there", async () => {
  const limit = { "memory/memory.limit_in_bytes": "9223372036854771712\n" };
  const none = { cpu: 0, memory: 0, blockRead: 0, blockWritten: 0 };
  assert.deepEqual(await usageOf(cgroup(false, limit)), none);
  assert.deepEqual(await usageOf(cgroup(true, {})), none);
});
