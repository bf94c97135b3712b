/** A server's address as a person gives it. */
import { SvcError } from "../base/errors.ts";

/** A text without a scheme is http. Throws `config_invalid` for anything but an http or https URL. */
export function parseServer(text: string): URL {
  const url = URL.parse(text.includes("://") ? text : `http://${text}`);
  if (!url || !/^https?:$/.test(url.protocol) || url.hostname === "" || url.search || url.hash) {
    throw new SvcError(
      "config_invalid",
      `Cannot use server ${JSON.stringify(text)}: expected a URL such as http://localhost:5000`,
      { help: "correct --server or SVC_SERVER" },
    );
  }
  return url;
}
