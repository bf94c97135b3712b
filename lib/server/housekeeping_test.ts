import assert from "node:assert/strict";
import { holdTimers } from "../../test/fixtures/held_timers.ts";
import { GIVE_BACK_MS, startHousekeeping } from "./housekeeping.ts";

const PIECE = 64 * 1024;

Deno.test({
  name: "memory that was freed below a piece in use is given back now and then",
  ignore: Deno.build.os !== "linux",
  async fn() {
    using timers = holdTimers(GIVE_BACK_MS);
    await using _housekeeping = startHousekeeping({
      config: { gcInterval: undefined, storageScrub: undefined },
      expireUploads: () => Promise.resolve(),
      upkeep: {} as never,
      log: {} as never,
    });
    const library = Deno.dlopen("libc.so.6", {
      malloc: { parameters: ["usize"], result: "pointer" },
      memset: { parameters: ["pointer", "i32", "usize"], result: "pointer" },
      free: { parameters: ["pointer"], result: "void" },
    });
    const { malloc, memset, free } = library.symbols;
    const pieces = Array.from(
      { length: 2000 },
      () => memset(malloc(BigInt(PIECE)), 1, BigInt(PIECE)),
    );
    const last = pieces.pop()!;
    for (const piece of pieces) free(piece);
    const before = Deno.memoryUsage().rss;
    timers.fire();
    const given = before - Deno.memoryUsage().rss;
    free(last);
    library.close();
    assert(given > 1000 * PIECE, `${given} bytes were given back`);
  },
});
