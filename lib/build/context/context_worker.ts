/** Worker that writes many files: it unpacks a context, or carries out a large COPY. */
import { asSvcError } from "../../base/errors.ts";
import { copySelections } from "./copy.ts";
import { FileCopier } from "./copy_files.ts";
import { ContextUnpacker } from "./unpack_context.ts";
import type { FromContextWorker, ToContextWorker } from "./worker_wire.ts";

const port = self as unknown as {
  onmessage: ((event: MessageEvent<ToContextWorker>) => void) | null;
  postMessage(message: FromContextWorker): void;
};

let unpacker: ContextUnpacker | undefined;
let stop = new AbortController();

/** Posts the last message of a job and resets the state for the next job. */
function answer(message: FromContextWorker): void {
  unpacker = undefined;
  stop = new AbortController();
  port.postMessage(message);
}

async function handle(message: ToContextWorker): Promise<void> {
  switch (message.type) {
    case "unpack":
      unpacker = new ContextUnpacker(message.root, message.dockerfile);
      return;
    case "chunk":
      unpacker!.push(message.bytes);
      return port.postMessage({ type: "taken", bytes: message.bytes.length });
    case "end":
      return answer({ type: "unpacked", result: await unpacker!.finish() });
    case "copy": {
      const { signal } = stop;
      const options = { ...message.options, signal };
      await copySelections(message.tree, message.selections, options);
      return answer({ type: "copied" });
    }
    case "files": {
      using files = new FileCopier({ ...message.options, signal: stop.signal });
      await files.batches(message.batches);
      return answer({ type: "copied" });
    }
    case "stop":
      stop.abort();
      // A copy notices the abort and posts its own last message.
      if (unpacker) port.postMessage({ type: "stopped" });
  }
}

port.onmessage = ({ data }) => {
  handle(data).catch((error) => {
    unpacker?.abandon();
    port.onmessage = null;
    const { code, message, help } = asSvcError(error);
    port.postMessage({ type: "error", code, message, help });
  });
};
