/** Worker that writes many files: a context that is unpacked, a COPY of more than a little. */
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

/** What a job ends with: the next one begins as the first did. */
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
      return answer({
        type: "copied",
        rest: await copySelections(message.tree, message.selections, options),
      });
    }
    case "files": {
      using files = new FileCopier({ ...message.options, signal: stop.signal });
      await files.batches(message.batches);
      return answer({ type: "copied", rest: [] });
    }
    case "stop":
      stop.abort();
      // A copy answers itself, when it has noticed.
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
