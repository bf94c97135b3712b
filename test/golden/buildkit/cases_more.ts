/** Corners: ignore rules, odd paths, empty values, variables where they are allowed. */
import type { Case } from "./case.ts";

export const MORE_CASES: Case[] = [
  {
    name: "ignore-patterns",
    dockerfile: "FROM scratch\nCOPY . /",
    files: {
      ".dockerignore":
        "# c\n\n  sp aced  \n/lead\n./dot\ntrail/\n**/*.md\n!keep.md\na/*/x\nb/**\n!b/c/yes\n" +
        "c?\n[d-e]1\nno/../up\n!never\nDockerfile*\n.dockerignore\n",
      "sp aced": "1",
      lead: "1",
      "sub/lead": "1",
      dot: "1",
      "trail/f": "1",
      "x.md": "1",
      "keep.md": "1",
      "sub/y.md": "1",
      "sub/keep.md": "1",
      "a/b/x": "1",
      "a/b/y": "1",
      "a/x": "1",
      "b/1": "1",
      "b/c/yes": "1",
      "b/c/no": "1",
      c1: "1",
      cc2: "1",
      d1: "1",
      f1: "1",
      up: "1",
      never: "1",
    },
  },
  {
    name: "copy-odd-paths",
    dockerfile:
      "FROM base\nWORKDIR /w\nCOPY ./ ./1/\nCOPY d/. /2\nCOPY d/../a /3\nCOPY ./d/./f /4\nCOPY / /5/\n" +
      "COPY a ././6\nCOPY d //7//8//\nCOPY a /9/.",
    files: { a: "a", "d/f": "f" },
  },
  {
    name: "copy-file-trailing-slash",
    dockerfile: "FROM base\nCOPY a/ /1/\nCOPY a/ /2",
    files: { a: "a" },
  },
  {
    name: "copy-variables",
    dockerfile:
      "FROM base\nARG S=a D=/dest O=7:8 M=640\nENV E=b\nCOPY --chown=${O} --chmod=${M} ${S} $E $D/\n" +
      "COPY ${S:+$S} ${D}2",
    files: { a: "a", b: "b" },
  },
  {
    name: "copy-onto-mount-points",
    dockerfile:
      "FROM base\nCOPY a /proc/x\nCOPY a /dev/x\nCOPY a /etc/resolv.conf\nCOPY a /etc/hosts\nRUN cat /etc/hosts > /y; ls /proc/x > /z || true",
    files: { a: "a\n" },
    deliberate: { why: "the hosts file of a step", paths: ["y"] },
  },
  {
    name: "config-empties",
    dockerfile:
      'FROM base\nENV A= B=""\nLABEL l=\nCMD []\nENTRYPOINT []\nARG X=\nRUN echo "[$A][$B][$X]" > /x',
  },
  {
    name: "config-entrypoint-cmd-order",
    dockerfile: 'FROM base\nENTRYPOINT ["a"]\nCMD ["b"]\nENTRYPOINT ["c"]',
  },
  {
    name: "config-from-variables",
    dockerfile:
      "ARG A=base B\nARG C=${A}\nFROM ${B:-$C} AS one\nFROM ${C}:${NOPE:-latest}\nCOPY --from=one /etc/group /g",
  },
  { name: "config-stopsignal-bad", dockerfile: "FROM base\nSTOPSIGNAL SIGNOPE", fails: true },
  { name: "config-expose-bad", dockerfile: "FROM base\nEXPOSE http", fails: true },
  {
    name: "config-env-quotes",
    dockerfile:
      'FROM base\nENV A=\'single $X\' B="dou\\"ble" C=a\\ b\\$c D="$A"\nRUN echo "$A|$B|$C|$D" > /x',
  },
  {
    name: "run-user-groups",
    dockerfile:
      "FROM base\nRUN echo 'extra:x:50:user' >> /etc/group\nUSER user\nRUN id > /tmp/1\nUSER user:extra\nRUN id > /tmp/2\n" +
      "USER 12:34\nRUN id > /tmp/3; echo $HOME > /tmp/4\nUSER 1000\nRUN id > /tmp/5",
  },
  {
    name: "run-workdir-removed",
    dockerfile: "FROM base\nWORKDIR /w\nRUN rmdir /w\nRUN pwd > /x",
  },
  {
    name: "run-mount-over",
    dockerfile:
      "FROM base\nRUN mkdir -p /d/sub && echo x > /d/f\nRUN --mount=type=tmpfs,target=/d touch /d/gone\n" +
      "RUN --mount=type=bind,target=/d/sub/deep ls /d/sub/deep > /1\nRUN --mount=type=cache,target=/d/c touch /d/c/x; touch /d/new",
    files: { a: "a" },
  },
  {
    name: "run-opaque",
    dockerfile:
      "FROM base\nRUN mkdir -p /d/a/b && touch /d/1 /d/a/2 /d/a/b/3\nRUN rm -r /d/a && mkdir -p /d/a/b && touch /d/a/b/4\n" +
      "RUN mv /d /e\nRUN mkdir /d && touch /d/5 && rm -r /e/a/b",
  },
  {
    name: "stage-onbuild-chain",
    dockerfile:
      "FROM base AS a\nONBUILD RUN echo a >> /log\nFROM a AS b\nRUN echo b >> /log\nONBUILD RUN echo ob >> /log\nFROM b\nRUN echo c >> /log",
  },
  {
    name: "heredoc-corners",
    dockerfile:
      "FROM base\nENV V=val\nCOPY <<\"EOF\" /1\n$V ${V}\nEOF\nCOPY <<EOF /2\n$V \\$V ${V:-x} `tick` 'q'\nEOF\nRUN <<EOF cat > /3\nin $V\nEOF\n" +
      "RUN cat <<'EOF' > /4\nraw $V\nEOF",
  },
];
