/** `RUN --mount=…`: parses the options and checks them for each type. */
import { posix } from "node:path";
import { parseBytes } from "../../base/bytes.ts";
import { suggestion } from "../../base/nearest.ts";
import { type Mount, MOUNT_TYPES, type MountType, type RunMount, type Word } from "./ast.ts";
import { parseError } from "./line.ts";

const ALIASES: Record<string, string> = {
  src: "source",
  dst: "target",
  destination: "target",
  ro: "readonly",
  rw: "readwrite",
};

/** Options that each type takes besides `type`. */
const ALLOWED: Record<MountType, readonly string[]> = {
  bind: ["from", "source", "target", "readonly", "readwrite"],
  cache: [
    "id",
    "from",
    "source",
    "target",
    "readonly",
    "readwrite",
    "sharing",
    "mode",
    "uid",
    "gid",
  ],
  tmpfs: ["target", "size", "readonly", "readwrite"],
  secret: ["id", "source", "target", "env", "required", "mode", "uid", "gid"],
  ssh: ["id", "source", "target", "required", "mode", "uid", "gid"],
};
const WITHOUT_VALUE = ["readonly", "readwrite", "required"];
const NAMES = [...new Set(["type", ...Object.values(ALLOWED).flat(), ...Object.keys(ALIASES)])];

const isType = (text: string): text is MountType => MOUNT_TYPES.some((type) => type === text);

/** Fields of one CSV record: `a=1,"b=2,3"`. */
function fields(text: string): string[] {
  const result: string[] = [];
  const pattern = /(?:"((?:[^"]|"")*)"|([^,]*))(?:,|$)/gy;
  while (pattern.lastIndex < text.length) {
    const match = pattern.exec(text);
    if (match === null) return text.split(",");
    result.push(match[1] === undefined ? match[2] : match[1].replaceAll('""', '"'));
  }
  return result;
}

/** Parses the flag's value, and checks it completely where it has no variables. Throws `dockerfile_invalid`. */
export function parseMount(raw: string, file: string, line: number): RunMount {
  const fail = (reason: string) => parseError("RUN", { file, line }, `--mount=${raw}: ${reason}`);
  const options: RunMount["options"] = [];
  for (const field of fields(raw)) {
    const equals = field.indexOf("=");
    const written = (equals === -1 ? field : field.slice(0, equals)).trim().toLowerCase();
    const name = ALIASES[written] ?? written;
    if (!NAMES.includes(name)) {
      throw fail(`unknown option ${JSON.stringify(written)}${suggestion(written, NAMES)}`);
    }
    if (equals === -1) {
      if (!WITHOUT_VALUE.includes(name)) throw fail(`option ${written} needs a value`);
      options.push({ name });
    } else options.push({ name, value: { raw: field.slice(equals + 1), line } });
  }
  const from = options.findLast((option) => option.name === "from")?.value?.raw;
  if (from?.includes("$")) {
    throw fail("option from takes no variables; give the image a stage of its own and name that");
  }
  const mount: RunMount = { raw, line, options };
  if (from !== undefined) mount.from = from;
  const type = options.findLast((option) => option.name === "type")?.value?.raw.toLowerCase();
  if (type === undefined) mount.type = "bind";
  else if (isType(type)) mount.type = type;
  else if (!type.includes("$")) {
    throw fail(`unknown mount type ${JSON.stringify(type)}${suggestion(type, MOUNT_TYPES)}`);
  }
  const constant = options.every((option) => !option.value?.raw.includes("$"));
  if (constant) resolveMount(mount, (word) => word.raw, file);
  return mount;
}

/** The mount with its variables expanded by `expandWord`. Throws `dockerfile_invalid`. */
export function resolveMount(
  mount: RunMount,
  expandWord: (word: Word) => string,
  file = "Dockerfile",
): Mount {
  const fail = (reason: string) =>
    parseError("RUN", { file, line: mount.line }, `--mount=${mount.raw}: ${reason}`);
  const given = new Map<string, string>();
  for (const { name, value } of mount.options) {
    given.set(name, value === undefined ? "true" : expandWord(value));
  }
  const type = (given.get("type") ?? "bind").toLowerCase();
  if (!isType(type)) {
    throw fail(`unknown mount type ${JSON.stringify(type)}${suggestion(type, MOUNT_TYPES)}`);
  }
  for (const name of given.keys()) {
    if (name !== "type" && !ALLOWED[type].includes(name)) {
      throw fail(`option ${name} does not go with type ${type}`);
    }
  }

  const text = (name: string) => given.get(name) || undefined;
  const boolean = (name: string): boolean | undefined => {
    const value = given.get(name);
    if (value === undefined) return undefined;
    if (/^(1|t|true)$/i.test(value)) return true;
    if (/^(0|f|false)$/i.test(value)) return false;
    throw fail(`option ${name} is true or false, not ${JSON.stringify(value)}`);
  };
  const number = (name: string, radix: 8 | 10): number | undefined => {
    const value = given.get(name);
    if (value === undefined) return undefined;
    const parsed = (radix === 8 ? /^[0-7]+$/ : /^\d+$/).test(value) ? parseInt(value, radix) : NaN;
    if (!(parsed <= 0xffffffff)) {
      throw fail(`option ${name} is ${radix === 8 ? "an octal" : "a"} number, not "${value}"`);
    }
    return parsed;
  };
  // A relative target is below WORKDIR, so "." means WORKDIR itself.
  const target = text("target") ?? ".";
  const readOnly = (byDefault: boolean): boolean => {
    const writable = boolean("readwrite");
    return boolean("readonly") ?? (writable === undefined ? byDefault : !writable);
  };
  const owner = (mode: number) => ({
    mode: number("mode", 8) ?? mode,
    uid: number("uid", 10) ?? 0,
    gid: number("gid", 10) ?? 0,
  });
  const from = mount.from ? { from: mount.from } : {};

  switch (type) {
    case "bind":
      return {
        type,
        ...from,
        source: text("source") ?? "/",
        target,
        readOnly: readOnly(true),
      };
    case "cache": {
      const sharing = (text("sharing") ?? "shared").toLowerCase();
      if (sharing !== "shared" && sharing !== "private" && sharing !== "locked") {
        const near = suggestion(sharing, ["shared", "private", "locked"]);
        throw fail(`option sharing is shared, private or locked, not "${sharing}"${near}`);
      }
      return {
        type,
        id: text("id") ?? posix.normalize(target).replace(/(.)\/$/, "$1"),
        target,
        readOnly: readOnly(false),
        sharing,
        ...from,
        source: text("source") ?? "/",
        ...owner(0o755),
      };
    }
    case "tmpfs": {
      readOnly(false);
      const size = text("size");
      if (size === undefined) return { type, target };
      try {
        return { type, target, size: parseBytes(size) };
      } catch {
        throw fail(`option size is bytes or a size such as 64m, not ${JSON.stringify(size)}`);
      }
    }
    case "secret": {
      const named = text("id") ?? text("source");
      if (text("id") !== undefined && text("source") !== undefined) {
        throw fail("option id and option source are the same thing; give one");
      }
      const path = text("target");
      const id = named ?? path?.split("/").findLast((part) => part !== "");
      if (id === undefined) throw fail("a secret mount needs id=NAME or target=PATH");
      const env = given.has("env") ? text("env") ?? id : undefined;
      return {
        type,
        id,
        ...(path !== undefined || env === undefined
          ? { target: path ?? `/run/secrets/${id}` }
          : {}),
        ...(env === undefined ? {} : { env }),
        required: boolean("required") ?? false,
        ...owner(0o400),
      };
    }
    case "ssh": {
      const path = text("target");
      return {
        type,
        id: text("id") ?? text("source") ?? "default",
        ...(path === undefined ? {} : { target: path }),
        required: boolean("required") ?? false,
        ...owner(0o600),
      };
    }
  }
}
