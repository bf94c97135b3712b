/** A Worker for tests: exchanges pairs of names in a folder as fast as it can, until it is stopped. */
import { open } from "../../sys/fd.ts";
import { O } from "../../sys/files.ts";
import { cbytes, tryCall } from "../../sys/system_call.ts";

const RENAME_EXCHANGE = 2;
/** Exchanges between two checks of the stop flag. */
const TURN = 100;

interface Order {
  folder: string;
  pairs: [string, string][];
  /** First element: number of exchanges. The second one is set to stop the worker. */
  counter: Int32Array;
}

const scope = self as unknown as {
  onmessage: (event: { data: Order }) => void;
  postMessage(message: string): void;
};
scope.onmessage = ({ data: { folder, pairs, counter } }) => {
  const fd = open(folder, O.RDONLY | O.DIRECTORY);
  const names = pairs.map(([a, b]) => [cbytes(a), cbytes(b)] as const);
  while (Atomics.load(counter, 1) === 0) {
    for (let n = 0; n < TURN; n++) {
      for (const [a, b] of names) {
        if (tryCall("renameat2", fd, a, fd, b, RENAME_EXCHANGE) === 0) Atomics.add(counter, 0, 1);
      }
    }
  }
  scope.postMessage("ended");
};
