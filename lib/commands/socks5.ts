/** `svc socks5`: one local proxy in front of every workload, until interrupted. */
import { SvcError } from "../base/errors.ts";
import { DEFAULT_SOCKS5_LISTEN, openSocks5 } from "../client/conduit/socks5.ts";
import type { ResolveRule } from "../client/conduit/socks5_rules.ts";
import { servicesOf } from "../client/forward.ts";
import type { Context } from "../client/profile/types.ts";
import type { Invocation } from "./command.ts";
import { openConnection } from "./connect.ts";
import type { SOCKS5_OPTIONS } from "./socks5_options.ts";

type Values = Invocation<typeof SOCKS5_OPTIONS>["values"];

/** `PATTERN=REPLACE`; a pattern may contain `=`, a replacement may not. Throws `usage`. */
export function parseRule(text: string): ResolveRule {
  const at = text.lastIndexOf("=");
  if (at > 0) return { pattern: text.slice(0, at), replace: text.slice(at + 1) };
  throw new SvcError(
    "usage",
    `Cannot read --resolve: ${JSON.stringify(text)} has no pattern and =`,
    {
      help: "write it as --resolve '^(\\w+)\\.corp:(\\d+)$=\\1:\\2'",
    },
  );
}

/** Flags go before the profile's fields. A flag for rules or suffix replaces both fields. */
function socks5Settings(values: Values, context: Context) {
  const fields = context.conduit?.socks5 ?? {};
  const flagged = values.resolve ?? (values.suffix === undefined ? undefined : []);
  return {
    listen: values.listen ?? fields.listen ?? DEFAULT_SOCKS5_LISTEN,
    rules: flagged?.map(parseRule) ?? fields.resolve,
    suffix: values.suffix ?? fields["service-host-suffix"],
    bareServiceNames: values.bareServiceNames ?? fields["bare-service-names"],
  };
}

export async function run(invocation: Invocation<typeof SOCKS5_OPTIONS>): Promise<number> {
  const { io, values } = invocation;
  const { client, target } = await openConnection(invocation);
  const settings = socks5Settings(values, target.settings);
  const services = servicesOf(client);
  // An error on the way to the server is reported now instead of with each connection.
  await services.list();
  await using proxy = await openSocks5({
    ...settings,
    services,
    warn: (text) => void io.stderr.write(`svc: ${text}\n`),
  });
  await io.stdout.write(
    values.output === "json"
      ? `${JSON.stringify({ socks5: proxy.address })}\n`
      : `socks5 proxy on ${proxy.address}\n`,
  );
  const interrupted = new Promise<void>((resolve) => {
    if (io.signal.aborted) resolve();
    io.signal.addEventListener("abort", () => resolve(), { once: true });
  });
  await Promise.race([interrupted, proxy.closed]);
  return 0;
}
