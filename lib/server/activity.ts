/** SVC_ACTIVITY_MAX_BYTES: the flight record and its route, or neither. */
import type { ACTIVITY } from "../config/server/auth.ts";
import type { SettingsOf } from "../config/table.ts";
import type { Answered } from "./activity/entry.ts";
import { ActivityRecord, type RecordOptions } from "./activity/record.ts";
import type { Lifecycle } from "./lifecycle.ts";
import type { Route } from "./route.ts";
import { activityRoutes } from "./routes/activity.ts";

export interface Activity extends AsyncDisposable {
  routes: Route[];
  /** Absent: nothing is recorded. */
  note?: (answered: Answered) => void;
}

export interface ActivityOptions extends Pick<RecordOptions, "dataDir" | "log"> {
  config: SettingsOf<[typeof ACTIVITY]>;
  lifecycle: Lifecycle;
}

export function openActivity({ config, lifecycle, ...rest }: ActivityOptions): Activity {
  const { activityMaxBytes: maxBytes } = config;
  if (maxBytes === 0) return { routes: [], [Symbol.asyncDispose]: () => Promise.resolve() };
  const record = new ActivityRecord({ ...rest, maxBytes });
  return {
    routes: activityRoutes({ record, lifecycle }),
    note: record.note,
    [Symbol.asyncDispose]: () => record[Symbol.asyncDispose](),
  };
}
