/** Holds forwarded ports of a deployment in the agent; each connection is dialled by itself. */
import type { Holder } from "../../agent/held.ts";
import { asSvcError, SvcError } from "../../base/errors.ts";
import { sleep } from "../../base/sleep.ts";
import { forwardPort, shownAddress } from "../../client/conduit/port_forward.ts";
import { getDeployment } from "../../client/deployments.ts";
import { servicesOf } from "../../client/forward.ts";
import { type Connecting, openConnection } from "../connect.ts";
import { silentIo } from "./silent_io.ts";
import type { ForwardWork } from "./work.ts";

/** Milliseconds between two looks whether the deployment is still there. */
const LOOK_MS = 10_000;
/** Milliseconds for which a deployment may be away: its session may deploy it again. */
const GONE_MS = 120_000;

export const holdPorts: Holder = async ({ name, env, work }, context) => {
  const { target, tokenCache, ports } = work as ForwardWork;
  const signal = AbortSignal.any([context.leaving, context.releasing]);
  const io = silentIo(signal, context.progress);
  await using opened = new AsyncDisposableStack();
  const { client } = await openConnection(
    { io, env, cleanup: opened, values: { tokenCache } } as unknown as Connecting,
    target,
  );
  const services = servicesOf(client);
  for (const { container: port, protocol, address, local } of ports) {
    opened.use(
      await forwardPort({
        ...{ services, name, port, protocol, address, local },
        onError: ({ message }) => context.tell("connected", message),
      }),
    );
  }
  context.shows(
    ports.map(({ container, protocol, address, local }) =>
      `${shownAddress(address, local)} -> ${name}:${container}/${protocol}`
    ),
  );
  await context.keep({});
  context.works({});
  for (let seen = performance.now(); !signal.aborted;) {
    await sleep(LOOK_MS, signal).catch(() => {/* looked at next */});
    if (signal.aborted) return;
    try {
      await getDeployment(client, name);
      seen = performance.now();
      context.tell("connected");
    } catch (error) {
      const gone = error instanceof SvcError && error.code === "not_found";
      if (signal.aborted || gone && performance.now() - seen > GONE_MS) return;
      if (!gone) seen = performance.now();
      context.tell("reconnecting", asSvcError(error).message);
    }
  }
};
