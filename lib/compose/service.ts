/** A service of a loaded Compose project and its parts, in the form that project.ts describes: as the shapes say. */
import type * as shapes from "./shape/service.ts";
import type { Valued } from "./shape/shape.ts";

export type Service = Valued<typeof shapes.SERVICE>;
export type Build = Valued<typeof shapes.build>;
export type WatchRule = Valued<typeof shapes.watch>;
export type Hook = Valued<typeof shapes.hook>;
export type FileReference = Valued<typeof shapes.reference>;
export type Dependency = Valued<typeof shapes.dependency>;
export type Provider = Valued<typeof shapes.provider>;
export type EnvFile = Valued<typeof shapes.envFile>;
export type Mount = Valued<typeof shapes.mount>;
