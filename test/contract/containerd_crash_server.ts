/** A server that applies one spec to the containerd backend, for containerd_crash_test.ts to kill meanwhile. */
import { openContainerd } from "./containerd_fixture.ts";

const { place, spec } = JSON.parse(Deno.args[0]);
const backend = await openContainerd(place);
await backend.apply(spec);
await backend[Symbol.asyncDispose]();
Deno.exit(0);
