/** Times; modes of destinations under `--chmod`, and archives that are unpacked over what is there. */
import type { Case } from "./case.ts";
import { archive } from "./cases_add.ts";

const files = {
  "d": { directory: true, mode: 0o711 },
  "d/f": { data: "f", mode: 0o644 },
  "d/sub": { directory: true, mode: 0o750 },
  "d/sub/g": { data: "g", mode: 0o600 },
  "d/sub/deep": { directory: true, mode: 0o2755 },
  "a.txt": "a",
  "b.txt": "b",
};

const EXISTING = "RUN mkdir -m 711 /e /e/in && mkdir -m 2775 /s && ln -s /e /l && chown 7:8 /s\n";

const copies = (name: string, lines: string[], more: Partial<Case> = {}): Case => ({
  name: `copy-modes-${name}`,
  dockerfile: `FROM base\n${EXISTING}${lines.join("\n")}`,
  files,
  ...more,
});

const MODES = ["700", "4755", "1777", "2770", "0", "u=rwx,go=", "g+s", "u+s,a-w", "a=rX"];

/** Each mode at places of its own. */
const each = (line: (mode: string, at: string) => string[]) =>
  MODES.flatMap((mode, index) => line(mode, `m${index}`));

const tree = (path: string, text: string) =>
  ({ path, type: "file", text, mode: 0o640, uid: 5, gid: 6 }) as const;

const added = (name: string, setup: string, entries: Parameters<typeof archive>[0], at = "/t") => ({
  name: `add-tar-${name}`,
  dockerfile: `FROM base\nRUN ${setup}\nADD ${name}.tar ${at}`,
  // A name of its own: BuildKit takes a file of the same name, size and time for the same.
  files: { [`${name}.tar`]: { data: archive(entries) } },
});

const refused = (...words: Parameters<typeof added>): Case => ({ ...added(...words), fails: true });

/** Times as a step sees them: real ones, to the nanosecond. */
const TIMES: Case = {
  name: "times",
  dockerfile: `FROM base AS one
COPY d /d
RUN touch -d @1300000000 /d/made
FROM base
RUN mkdir /there
COPY d /new
COPY d /there
COPY late /f
COPY --from=one /d /staged
ADD times.tar /t
ADD {{http}}/f /u
RUN cd / && stat -c '%n %y' new new/f new/sub there staged/f staged/made f t/m t/sub u > /seen
RUN echo 1 > /in && cp /in /out && sleep 0.02 && echo 2 > /in
RUN t() { stat -c %y $1; }; [ "$(t /in)" != "$(t /out)" ] && (t /out; t /in) | sort -c && echo newer > /kept
RUN echo "[$SOURCE_DATE_EPOCH]" > /epoch
WORKDIR /made/here
RUN a=$(stat -c %Y /made/here); [ $a -gt 1700000000 ] && [ $(stat -c %Y /made) -ge $((a - 60)) ] && echo now > /clock`,
  files: {
    "d": { directory: true, mtime: 1_400_000_000, mtimeNs: 1 },
    "d/f": { data: "f", mtimeNs: 123_456_789 },
    "d/sub": { directory: true, mtime: 1_200_000_000, mtimeNs: 999_999_999 },
    "d/sub/g": "g",
    "late": { data: "l", mtime: 2_000_000_000, mtimeNs: 5 },
    "times.tar": {
      data: archive([
        { path: "m", type: "file", text: "m", mtime: 1_100_000_000, mtimeNs: 987_654_321 },
        { path: "sub", type: "directory", mtime: 1_000_000_000 },
        { path: "sub/n", type: "file", text: "n" },
      ]),
    },
  },
  serve: { "/f": "served" },
};

export const MODE_CASES: Case[] = [
  TIMES,
  copies("new", each((mode, at) => [`COPY --chmod=${mode} d /${at}`])),
  copies("new-deep", each((mode, at) => [`COPY --chmod=${mode} d /${at}/way/to`])),
  copies("new-slash", each((mode, at) => [`COPY --chmod=${mode} d /${at}/`])),
  copies("file", each((mode, at) => [`COPY --chmod=${mode} a.txt /${at}/way/x`])),
  copies("file-slash", each((mode, at) => [`COPY --chmod=${mode} a.txt /${at}/way/`])),
  copies("several", each((mode, at) => [`COPY --chmod=${mode} a.txt b.txt /${at}/`])),
  copies("mixed", [
    "COPY --chmod=2770 a.txt d/sub /x/",
    "COPY --chmod=2770 d/sub a.txt /y/",
    "COPY --chmod=700 d/* /z/",
  ], {}),
  copies("existing", ["COPY --chmod=700 d /e", "COPY --chmod=4700 d /s/"]),
  copies("existing-file", ["COPY --chmod=700 a.txt /e/", "COPY --chmod=4700 a.txt /s"]),
  copies("existing-below", ["COPY --chmod=700 d /e/in/more", "COPY --chmod=2700 d /s/new/deep"]),
  copies("existing-symbolic", ["COPY --chmod=u=rwx,go= d /e", "COPY --chmod=g-s d /s"]),
  copies("by-link", ["COPY --chmod=700 d /l", "COPY --chmod=2750 d /l/new"]),
  copies("again", ["COPY d /x", "COPY --chmod=700 d /x", "COPY --chmod=2711 d/sub /x/sub"]),
  copies("owner", ["COPY --chown=5:6 --chmod=2750 d /x/y", "COPY --chown=5:6 d /z/y"]),
  copies("link", each((mode, at) => [`COPY --link --chmod=${mode} d /${at}/way`])),
  copies("link-owner", [
    "COPY --link --chown=5:6 d /x/y",
    "COPY --link --chown=5:6 --chmod=700 a.txt /z/y/",
  ]),
  copies("link-file", each((mode, at) => [`COPY --link --chmod=${mode} a.txt /${at}/way/`])),
  copies("link-existing", ["COPY --link --chmod=700 d /e", "COPY --link --chmod=700 a.txt /s/"]),
  copies("stage", [
    "COPY --from=base --chmod=700 /srv /x/y",
    "COPY --from=base --chmod=4711 /srv /s",
  ]),
  copies("heredoc", [
    "COPY --chmod=700 <<EOF /x/y/",
    "t",
    "EOF",
    "COPY --chmod=u+s <<EOF /z",
    "t",
    "EOF",
  ]),
  copies("add", ["ADD --chmod=700 d /x/y", "ADD --chmod=2711 a.txt /z/y/"]),
  added("over-folder-link", "mkdir -p /t /real && ln -s /real /t/l", [
    { path: "l", type: "directory", mode: 0o700, uid: 5, gid: 6 },
    tree("l/f", "1"),
  ]),
  added("through-link", "mkdir -p /t /real && ln -s /real /t/l", [tree("l/f", "1")]),
  added("through-link-deep", "mkdir -p /t /real && ln -s /real /t/l", [tree("l/m/n/f", "1")]),
  added("through-relative", "mkdir -p /t/in /real && ln -s in /t/l", [tree("l/f", "1")]),
  refused("through-up", "mkdir -p /t/in /real && ln -s ../real /t/l", [tree("l/f", "1")]),
  added("through-dangling", "mkdir -p /t && ln -s nowhere /t/l", [tree("l/f", "1")]),
  added("through-file-link", "mkdir -p /t && ln -s /etc/passwd /t/l", [tree("l/f", "1")]),
  added("over-file-link", "mkdir -p /t && echo x > /x && ln -s /x /t/f", [tree("f", "1")]),
  added("link-then-through", "mkdir -p /t/in", [
    { path: "l", type: "symlink", linkpath: "in" },
    tree("l/f", "1"),
  ]),
  added("link-out-then-through", "mkdir -p /t /out", [
    { path: "l", type: "symlink", linkpath: "/out" },
    tree("l/f", "1"),
  ]),
  added("hard-link-over", "mkdir -p /t && echo x > /t/b", [
    tree("a", "1"),
    { path: "b", type: "hardlink", linkpath: "a", mode: 0o640, uid: 5, gid: 6 },
  ]),
  added("hard-link-existing", "mkdir -p /t && echo x > /t/b", [
    { path: "a", type: "hardlink", linkpath: "b" },
  ]),
  refused("hard-link-root", "mkdir -p /t && echo x > /b", [
    { path: "a", type: "hardlink", linkpath: "/b" },
  ]),
  refused("dots", "mkdir -p /t/in", [tree("../up", "1"), tree("in/../side", "2")]),
  refused("dots-inside", "mkdir -p /t/in", [tree("in/../side", "2"), tree("a/../../b", "3")]),
  added("dots-side", "mkdir -p /t/in", [tree("in/../side", "2")]),
  added("dots-missing", "mkdir -p /t", [tree("no/../side", "2")]),
  refused("dots-folder", "mkdir -p /t", [
    { path: "../up", type: "directory", mode: 0o700 },
    { path: "..", type: "directory", mode: 0o700 },
  ]),
  added("dots-symlink", "mkdir -p /t", [
    { path: "l", type: "symlink", linkpath: "../../../etc/passwd" },
  ]),
  refused("dots-hard-link", "mkdir -p /t && echo x > /b", [
    { path: "a", type: "hardlink", linkpath: "../b" },
  ]),
  added("absolute", "mkdir -p /t", [tree("/abs/f", "1")]),
  added("root-entry", "mkdir -p -m 711 /t", [
    { path: "./", type: "directory", mode: 0o700, uid: 5, gid: 6 },
    tree("./f", "1"),
  ]),
  added("new-root-entry", "true", [
    { path: "./", type: "directory", mode: 0o700, uid: 5, gid: 6 },
    tree("./f", "1"),
  ], "/new/t"),
  added("file-over-folder", "mkdir -p /t/f/below", [tree("f", "1")]),
  added("folder-over-file", "mkdir -p /t && echo x > /t/f", [
    { path: "f", type: "directory", mode: 0o700 },
  ]),
  refused("through-file", "mkdir -p /t && echo x > /t/f", [tree("f/g", "1")]),
  added("existing-folder", "mkdir -p -m 711 /t/in && chown 7:8 /t/in", [
    { path: "in", type: "directory", mode: 0o2750, uid: 5, gid: 6 },
  ]),
  added("twice", "mkdir -p /t", [tree("f", "1"), tree("f", "22")]),
  added("dest-link", "mkdir -p /real && ln -s /real /t", [tree("f", "1")]),
  added("dest-link-slash", "mkdir -p /real && ln -s /real /t", [tree("f", "1")], "/t/"),
  added("white-out", "mkdir -p /t && echo x > /t/gone && mkdir /t/o && echo x > /t/o/x", [
    tree(".wh.gone", ""),
    tree("o/.wh..wh..opq", ""),
  ]),
];
