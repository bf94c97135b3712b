/** `GET /.svc/v1/caretaker/attach`: the caretaker beside an instance (lib/api/caretaker.ts). */
import { endpoint } from "../../api/endpoints.ts";
import { accept } from "../attached/accept.ts";
import type { ServerCaretakers } from "../caretakers/caretakers.ts";
import type { ManagementDeps } from "../deps.ts";
import { Query } from "../query.ts";
import type { Context, Route } from "../route.ts";

/** Streams that a caretaker may have open at once: one for each connection to one of its sockets. */
const MAX_STREAMS = 256;

const bearerOf = (request: Request) =>
  /^Bearer (\S+)$/i.exec(request.headers.get("authorization") ?? "")?.[1];

export function caretakerRoutes(deps: ManagementDeps, caretakers: ServerCaretakers): Route[] {
  async function attach(context: Context): Promise<Response> {
    const instance = new Query(context.url).text("instance") ?? "";
    // The backend knows the instances of an earlier server once it is open.
    await deps.deploy.backend();
    const seat = await caretakers.admit(bearerOf(context.request), instance);
    const { deployment } = seat.of;
    context.identity = { subject: instance, scopes: ["caretaker"], method: "caretaker" };
    context.about = deployment;
    const { session, response } = accept(context, deps.lifecycle, {
      attempt: `attach the caretaker of ${instance}`,
      help: "use `svc caretaker`",
      maxStreams: MAX_STREAMS,
      takes: {
        caretaker: (stream) => seat.report(session, stream),
        ssh: (stream, fields) => seat.joinAgent(stream, fields),
        mount: (stream, fields) => deps.mounts?.lead(deployment, instance, stream, fields),
        credential: (stream, fields) => deps.credentials?.lead(deployment, stream, fields),
      },
      // It attaches to the next server by itself.
      onStop: (session) => void session.close(),
    });
    seat.sit(session);
    return response;
  }

  return [{
    ...endpoint("GET /caretaker/attach"),
    // The token of one instance is no credential of the server's: it is good for this route alone, also where no other
    // route asks for a credential.
    open: true,
    help:
      "Attached session of the caretaker beside `instance`, whose own token is the credential. The caretaker " +
      "opens `caretaker`, `ssh`, `credential` and `mount`, the server `dial` and `agent`.",
    handler: attach,
  }];
}
