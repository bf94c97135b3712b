/** COPY: sources, destinations, owners, modes, links, wildcards. */
import type { Case, ContextFiles } from "./case.ts";

const files: ContextFiles = {
  "a.txt": "a\n",
  "b.txt": { data: "b\n", mode: 0o600 },
  "run.sh": { data: "#!/bin/sh\necho hi\n", mode: 0o755 },
  "d/one": "1\n",
  "d/sub/two": { data: "2\n", mode: 0o4755 },
  "d/sub/deep/three": "3\n",
  "d/empty": { directory: true, mode: 0o700 },
  "d/link": { link: "one" },
  "d/dangling": { link: "/nowhere" },
  "d/up": { link: "../a.txt" },
  "linked": { link: "d/sub" },
  "file-link": { link: "a.txt" },
};

export const COPY_CASES: Case[] = [
  {
    name: "copy-file",
    dockerfile: "FROM base\nCOPY a.txt /x\nCOPY a.txt b.txt /y/\nCOPY a.txt /srv\nCOPY b.txt z/",
    files,
  },
  {
    name: "copy-folder",
    dockerfile: "FROM base\nCOPY d /d\nCOPY d /srv\nCOPY d/ /slash/\nCOPY d/sub /made/on/the/way",
    files,
  },
  { name: "copy-all", dockerfile: "FROM scratch\nCOPY . /", files },
  { name: "copy-all-below", dockerfile: "FROM scratch\nCOPY . /app/", files },
  {
    name: "copy-workdir",
    dockerfile:
      "FROM base\nWORKDIR /w/x\nCOPY a.txt .\nCOPY d d\nCOPY a.txt ../renamed\nWORKDIR y\n" +
      "COPY b.txt ./",
    files,
  },
  {
    name: "copy-wildcards",
    dockerfile:
      "FROM base\nCOPY *.txt /t/\nCOPY d/[elos]*[!k] /star/\nCOPY d/s?b/[a-t]* /q/\nCOPY d/**/t* /deep/\n" +
      "COPY r*.sh /exact",
    files,
  },
  { name: "copy-wildcard-dangling", dockerfile: "FROM base\nCOPY d/* /star/", files, fails: true },
  {
    name: "copy-wildcard-many-to-file",
    dockerfile: "FROM base\nCOPY *.txt /one-file",
    files,
  },
  {
    name: "copy-wildcard-none",
    dockerfile: "FROM base\nCOPY *.zip /t/",
    files,
  },
  { name: "copy-missing", dockerfile: "FROM base\nCOPY nope /t", files, fails: true },
  {
    name: "copy-symlinks",
    dockerfile:
      "FROM base\nCOPY linked /l1\nCOPY linked/ /l2/\nCOPY file-link /l3\nCOPY d/up /l4\n" +
      "COPY linked/two /l5",
    files,
  },
  {
    name: "copy-symlink-in-wildcard",
    dockerfile: "FROM base\nCOPY file* linke[d] /l/\nCOPY d/lin* /m/",
    files,
  },
  {
    name: "copy-dangling",
    dockerfile: "FROM base\nCOPY d/dangling /x",
    files,
    fails: true,
  },
  {
    name: "copy-destination-links",
    dockerfile: "FROM base\nRUN mkdir /real && ln -s /real /alias && ln -s ../real /srv/rel && " +
      "echo old > /real/file && ln -s /real/file /file-alias\n" +
      "COPY a.txt /alias/\nCOPY b.txt /srv/rel/b\nCOPY d /alias\nCOPY a.txt /file-alias",
    files,
  },
  {
    name: "copy-over",
    dockerfile:
      "FROM base\nRUN mkdir -p /srv/d/sub && echo kept > /srv/d/kept && chmod 700 /srv/d && " +
      "echo old > /srv/d/one && ln -s /etc/passwd /srv/d/sub/two && chown 5:6 /srv/d/sub\n" +
      "COPY d /srv/d",
    files,
  },
  {
    name: "copy-file-over-folder",
    dockerfile: "FROM base\nRUN mkdir -p /t/one\nCOPY d /t",
    files,
    fails: true,
  },
  {
    name: "copy-folder-over-file",
    dockerfile: "FROM base\nRUN touch /t\nCOPY d /t",
    files,
    fails: true,
  },
  {
    name: "copy-folder-over-link",
    dockerfile: "FROM base\nRUN mkdir -p /t /other && ln -s /other /t/sub\nCOPY d /t",
    files,
    fails: true,
  },
  {
    name: "copy-chown",
    dockerfile: "FROM base\nCOPY --chown=user a.txt /1/x\nCOPY --chown=user:root d /2\n" +
      "COPY --chown=7:8 a.txt /3\nCOPY --chown=9 d/one /4\nCOPY --chown=:12 a.txt /5\n" +
      "COPY --chown=1000:user b.txt /6/7/",
    files,
  },
  {
    name: "copy-chown-unknown",
    dockerfile: "FROM base\nCOPY --chown=ghost a.txt /x",
    files,
    fails: true,
    deliberate: { why: "BuildKit takes a name that nobody has for root; svc says so" },
  },
  {
    name: "copy-chown-user",
    dockerfile:
      "FROM base\nUSER user\nCOPY a.txt /x\nWORKDIR /home/w\nCOPY d d\nRUN touch made && id > ids",
    files,
  },
  {
    name: "copy-chmod-octal",
    dockerfile:
      "FROM base\nCOPY --chmod=755 d /1\nCOPY --chmod=4711 a.txt /2\nCOPY --chmod=0600 run.sh /3/x\n" +
      "ARG M=640\nCOPY --chmod=$M a.txt /4",
    files,
  },
  {
    name: "copy-chmod-symbolic",
    dockerfile: "FROM base\nCOPY --chmod=u=rwX,go=rX d /1\nCOPY --chmod=g+w a.txt /2\n" +
      "COPY --chmod=a-x,u+s run.sh /3\nCOPY --chmod=go-rwx d/sub /4\nCOPY --chmod=+x a.txt /5\n" +
      "COPY --chmod=g=u b.txt /6\nCOPY --chmod=u=rwx,go= a.txt b.txt /7/",
    files,
  },
  {
    name: "copy-chmod-bad",
    dockerfile: "FROM base\nCOPY --chmod=rwx a.txt /x",
    files,
    fails: true,
  },
  {
    name: "copy-link",
    dockerfile: "FROM base\nRUN mkdir /real && ln -s /real /alias\nCOPY --link a.txt /linked/x\n" +
      "COPY --link --chown=5:6 --chmod=711 d /linked/d\nCOPY --link run.sh /bin/",
    files,
  },
  {
    name: "copy-link-destination",
    dockerfile:
      "FROM base\nRUN mkdir /real && mkdir -m 700 /p && chown 5:6 /p && ln -s /real /alias && " +
      "echo x > /f && mkdir /q\nCOPY --link a.txt /p/a\nCOPY --link a.txt /alias/x\n" +
      "COPY --link --chown=7:8 d /p/sub\nCOPY --link a.txt /tmp/\nCOPY --link d /q",
    files,
  },
  {
    name: "copy-link-user",
    dockerfile:
      "FROM base\nWORKDIR /w\nCOPY --link a.txt .\nUSER user\nCOPY --link --chown=7 d ./d",
    files,
  },
  {
    name: "copy-exclude",
    dockerfile: "FROM base\nCOPY --exclude=*.txt . /1/\nCOPY --exclude=sub d /2\n" +
      "COPY --exclude=sub/deep --exclude=one d /3\nCOPY --exclude=**/t* . /4/\n" +
      "COPY --exclude=d/sub --exclude=!d/sub/two . /5/",
    files,
  },
  {
    name: "copy-from-stage",
    dockerfile: "FROM base AS one\nRUN mkdir -p /o/p && echo x > /o/p/f && chown -R 3:4 /o && " +
      "chmod 2750 /o/p && ln -s p /o/l && ln /o/p/f /o/hard && touch -t 200001020304 /o/p/f\n" +
      "FROM base\nCOPY --from=one /o /copy\nCOPY --from=0 /o/p/f /file\nCOPY --from=one /o/l /l\n" +
      "COPY --from=one --chown=user /o /owned\nCOPY --from=one /o/* /star/",
  },
  {
    name: "copy-from-image",
    dockerfile:
      "FROM scratch\nCOPY --from=base /etc/passwd /srv/index.html /x/\nCOPY --from=base /etc /etc",
  },
  {
    name: "copy-hardlinks",
    dockerfile:
      "FROM base AS one\nRUN mkdir /h && echo same > /h/a && ln /h/a /h/b && ln /h/a /outside\n" +
      "FROM base\nCOPY --from=one /h /h\nCOPY --from=one /h/a /h/b /two/\nCOPY h /ctx",
    files: { "h/x": "linked\n", "h/y": { hard: "h/x" } },
  },
  {
    name: "copy-special",
    deliberate: { why: "BuildKit copies a block device as a character device", paths: ["s/disk"] },
    dockerfile: "FROM base AS one\nRUN mkdir /s && mknod /s/pipe p && mknod /s/null c 1 3 && " +
      "mknod /s/disk b 7 9 && chmod 640 /s/null && chown 1:2 /s/null && touch -t 200001010000 /s/*\n" +
      "FROM base\nCOPY --from=one /s /s",
  },
  {
    name: "copy-sparse",
    dockerfile:
      "FROM base AS one\nRUN mkdir /s && dd if=/dev/zero of=/s/f bs=1 count=1 seek=10000000 && " +
      "echo mid | dd of=/s/f bs=1 seek=5000000 conv=notrunc\nFROM base\nCOPY --from=one /s/f /f",
  },
  {
    name: "copy-heredoc",
    dockerfile:
      "FROM base\nARG WHO=me\nCOPY <<one <<-'two' /h/\nhello $WHO \"q\"\none\n\traw $WHO\n\t\tx\ntwo\n" +
      "COPY --chmod=700 --chown=user <<EOF /h/named\nEOF\nCOPY <<EOF a.txt /mix/\nm\nEOF",
    files,
  },
  {
    name: "copy-json",
    dockerfile: 'FROM base\nCOPY ["with space", "quote\\"d", "/x y/"]\nCOPY with\\ space /z',
    files: { "with space": "s\n", 'quote"d': "q\n" },
    fails: true,
  },
  {
    name: "copy-json-spaces",
    dockerfile:
      'FROM base\nCOPY ["with space", "quote\\\\\\"d", "/x y/"]\nENV N="with space"\nCOPY "$N" /z/',
    files: { "with space": "s\n", 'quote"d': "q\n" },
  },
  {
    name: "copy-special-names",
    dockerfile: "FROM base\nCOPY [[]x] /1\nCOPY n/ /n/",
    files: {
      "[x]": "bracket\n",
      "n/ü": "u\n",
      "n/-dash": "d\n",
      "n/.hidden": "h\n",
      "n/a*b": "s\n",
    },
  },
  {
    name: "copy-dockerignore",
    dockerfile: "FROM scratch\nCOPY . /",
    files: {
      ...files,
      ".dockerignore":
        "# comment\n*.txt\n!a.txt\nd/sub\n**/three\n/linked\nDockerfile\n.dockerignore\n",
    },
  },
  {
    name: "copy-ignored",
    dockerfile: "FROM base\nCOPY d/one /x",
    files: { ...files, ".dockerignore": "d" },
    fails: true,
  },
  {
    name: "copy-out-of-context",
    dockerfile: "FROM base\nCOPY ../a.txt /x\nCOPY /a.txt /y\nCOPY d/../../b.txt /z",
    files,
  },
  {
    name: "copy-times",
    dockerfile: "FROM base\nCOPY t /t\nCOPY t/old /u\nCOPY t/sub /v/w",
    files: {
      "t": { directory: true, mtime: 1_000_000_000 },
      "t/old": { data: "o", mtime: 1 },
      "t/sub": { directory: true, mtime: 1_100_000_000 },
      "t/sub/l": { link: "x", mtime: 1_200_000_000 },
      "t/sub/f": { data: "f", mtime: 1_300_000_000 },
    },
  },
  {
    name: "copy-xattrs",
    dockerfile: "FROM base AS one\nCOPY x /x\nFROM base\nCOPY --from=one /x /y",
    files: { "x": { directory: true }, "x/f": { data: "f", xattrs: { "user.note": "kept" } } },
  },
  {
    name: "copy-empty-folder",
    dockerfile: "FROM base\nCOPY e /e\nCOPY e /f/\nCOPY e/ /srv",
    files: { e: { directory: true, mode: 0o750 } },
  },
  {
    name: "copy-modes",
    dockerfile: "FROM base\nCOPY . /m/\nRUN stat -c '%a %n' /m/* > /modes",
    files: {
      s: { data: "s", mode: 0o4755 },
      g: { data: "g", mode: 0o2755 },
      t: { directory: true, mode: 0o1777 },
      z: { data: "z", mode: 0 },
      w: { data: "w", mode: 0o666 },
    },
  },
];
