import { objectStoreContract } from "../../test/contract/object_store.ts";
import { openMemStore } from "./mem.ts";

objectStoreContract(
  "mem",
  () => Promise.resolve({ store: openMemStore(), cleanup: () => Promise.resolve() }),
  { durable: false },
);
