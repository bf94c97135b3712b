/** A server that applies one spec to the bare backend, for bare_crash_test.ts to kill meanwhile. */
import { openBare } from "./bare_fixture.ts";

const { host, config, spec } = JSON.parse(Deno.args[0]);
const backend = await openBare(host, config);
await backend.apply(spec);
await backend[Symbol.asyncDispose]();
Deno.exit(0);
