/** `RUN --mount=…`: parses the options and checks them for each type. */
import { posix } from "node:path";
import { parseBytes } from "../../base/bytes.ts";
import { suggestion } from "../../base/nearest.ts";
import { type Mount, MOUNT_TYPES, type MountFlag, type MountType, type Word } from "./ast.ts";
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
export function parseMount(raw: string, file: string, line: number): MountFlag {
  const fail = (reason: string) => parseError("RUN", { file, line }, `--mount=${raw}: ${reason}`);
  const options: MountFlag["options"] = [];
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
  const mount: MountFlag = { raw, line, options };
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

/** A mount's options with their variables expanded. */
class Given {
  readonly #values = new Map<string, string>();
  /** Makes the error for a reason. */
  readonly fail: (reason: string) => Error;

  constructor(mount: MountFlag, expandWord: (word: Word) => string, file: string) {
    this.fail = (reason) =>
      parseError("RUN", { file, line: mount.line }, `--mount=${mount.raw}: ${reason}`);
    for (const { name, value } of mount.options) {
      this.#values.set(name, value === undefined ? "true" : expandWord(value));
    }
  }

  get type(): MountType {
    const type = (this.#values.get("type") ?? "bind").toLowerCase();
    if (!isType(type)) {
      throw this.fail(
        `unknown mount type ${JSON.stringify(type)}${suggestion(type, MOUNT_TYPES)}`,
      );
    }
    for (const name of this.#values.keys()) {
      if (name !== "type" && !ALLOWED[type].includes(name)) {
        throw this.fail(`option ${name} does not go with type ${type}`);
      }
    }
    return type;
  }

  has(name: string): boolean {
    return this.#values.has(name);
  }

  /** Undefined for an option that is missing or empty. */
  text(name: string): string | undefined {
    return this.#values.get(name) || undefined;
  }

  boolean(name: string): boolean | undefined {
    const value = this.#values.get(name);
    if (value === undefined) return undefined;
    if (/^(1|t|true)$/i.test(value)) return true;
    if (/^(0|f|false)$/i.test(value)) return false;
    throw this.fail(`option ${name} is true or false, not ${JSON.stringify(value)}`);
  }

  #number(name: string, radix: 8 | 10): number | undefined {
    const value = this.#values.get(name);
    if (value === undefined) return undefined;
    const parsed = (radix === 8 ? /^[0-7]+$/ : /^\d+$/).test(value) ? parseInt(value, radix) : NaN;
    if (!(parsed <= 0xffffffff)) {
      throw this.fail(`option ${name} is ${radix === 8 ? "an octal" : "a"} number, not "${value}"`);
    }
    return parsed;
  }

  readOnly(byDefault: boolean): boolean {
    const writable = this.boolean("readwrite");
    return this.boolean("readonly") ?? (writable === undefined ? byDefault : !writable);
  }

  owner(mode: number) {
    return {
      mode: this.#number("mode", 8) ?? mode,
      uid: this.#number("uid", 10) ?? 0,
      gid: this.#number("gid", 10) ?? 0,
    };
  }
}

function sharingOf(given: Given): Extract<Mount, { type: "cache" }>["sharing"] {
  const sharing = (given.text("sharing") ?? "shared").toLowerCase();
  if (sharing === "shared" || sharing === "private" || sharing === "locked") return sharing;
  const near = suggestion(sharing, ["shared", "private", "locked"]);
  throw given.fail(`option sharing is shared, private or locked, not "${sharing}"${near}`);
}

function tmpfsMount(given: Given, target: string): Mount {
  const type = "tmpfs";
  given.readOnly(false);
  const size = given.text("size");
  if (size === undefined) return { type, target };
  try {
    return { type, target, size: parseBytes(size) };
  } catch {
    throw given.fail(`option size is bytes or a size such as 64m, not ${JSON.stringify(size)}`);
  }
}

function secretMount(given: Given): Mount {
  const named = given.text("id") ?? given.text("source");
  if (given.text("id") !== undefined && given.text("source") !== undefined) {
    throw given.fail("option id and option source are the same thing; give one");
  }
  const path = given.text("target");
  const id = named ?? path?.split("/").findLast((part) => part !== "");
  if (id === undefined) throw given.fail("a secret mount needs id=NAME or target=PATH");
  const env = given.has("env") ? given.text("env") ?? id : undefined;
  return {
    type: "secret",
    id,
    ...(path !== undefined || env === undefined ? { target: path ?? `/run/secrets/${id}` } : {}),
    ...(env === undefined ? {} : { env }),
    required: given.boolean("required") ?? false,
    ...given.owner(0o400),
  };
}

/** The mount with its variables expanded by `expandWord`. Throws `dockerfile_invalid`. */
export function resolveMount(
  mount: MountFlag,
  expandWord: (word: Word) => string,
  file = "Dockerfile",
): Mount {
  const given = new Given(mount, expandWord, file);
  const { type } = given;
  // A relative target is below WORKDIR, so "." means WORKDIR itself.
  const target = given.text("target") ?? ".";
  const from = mount.from ? { from: mount.from } : {};
  const source = given.text("source") ?? "/";
  switch (type) {
    case "bind":
      return { type, ...from, source, target, readOnly: given.readOnly(true) };
    case "cache":
      return {
        type,
        sharing: sharingOf(given),
        id: given.text("id") ?? posix.normalize(target).replace(/(.)\/$/, "$1"),
        target,
        readOnly: given.readOnly(false),
        ...from,
        source,
        ...given.owner(0o755),
      };
    case "tmpfs":
      return tmpfsMount(given, target);
    case "secret":
      return secretMount(given);
    case "ssh": {
      const path = given.text("target");
      return {
        type,
        id: given.text("id") ?? given.text("source") ?? "default",
        ...(path === undefined ? {} : { target: path }),
        required: given.boolean("required") ?? false,
        ...given.owner(0o600),
      };
    }
  }
}
