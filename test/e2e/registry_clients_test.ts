/** The registry with a store of its own, by the clients that people have. */
import { startServer } from "./harness.ts";
import { clientTests } from "./registry_clients.ts";

clientTests("", {}, () => startServer());
