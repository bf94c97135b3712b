/** Instructions that make the image's configuration. */
import type { Case } from "./case.ts";

export const CONFIG_CASES: Case[] = [
  {
    name: "config-env",
    dockerfile: 'FROM base\nENV A=1 B="two words" C=three\\ words\nENV OLD form with spaces\n' +
      "ENV D=$A E=${B} F=${X:-default} G=${A:+set} PATH=/opt:$PATH\nENV A=again H='$A' I=\"$A\"\n" +
      'ENV J="${B#two }" K="${B%words}" L="${B/two/2}" M=a$$b N=\\$A',
  },
  {
    name: "config-labels",
    dockerfile:
      'FROM base\nLABEL a=1 b="two words" "c d"=e\nLABEL old style\nLABEL multi="l1\\\nl2" a=2',
    labels: { z: "given", a: "wins" },
  },
  {
    name: "config-command",
    dockerfile: 'FROM base\nCMD echo "shell $X"\nENTRYPOINT ["/e", "x"]',
  },
  {
    name: "config-entrypoint-resets",
    dockerfile:
      'FROM base AS one\nENTRYPOINT ["/e"]\nFROM one\nCMD ["c"]\nFROM one\nENTRYPOINT shell form',
  },
  {
    name: "config-shell",
    dockerfile:
      'FROM base\nSHELL ["/bin/sh", "-ec"]\nCMD a b\nENTRYPOINT c\nHEALTHCHECK CMD d e\nRUN echo $0 > /x',
  },
  {
    name: "config-healthcheck",
    dockerfile:
      "FROM base AS a\nHEALTHCHECK --interval=5m --timeout=3s --start-period=1s --start-interval=2s --retries=3 \\\n" +
      '  CMD ["/check", "it"]\nFROM a\nHEALTHCHECK --interval=10s CMD curl -f http://localhost/ || exit 1',
  },
  {
    name: "config-healthcheck-none",
    dockerfile: "FROM base\nHEALTHCHECK CMD x\nHEALTHCHECK NONE",
  },
  {
    name: "config-expose",
    dockerfile:
      "FROM base\nEXPOSE 80 443/tcp 53/udp\nARG P=90-92\nEXPOSE $P\nEXPOSE 80/tcp 1000/SCTP",
  },
  {
    name: "config-volume",
    dockerfile: 'FROM base\nVOLUME /a /b\nVOLUME ["/c d", "/e"]\nARG V=/var\nVOLUME $V/log',
  },
  {
    name: "config-user-workdir",
    dockerfile:
      "FROM base\nUSER user:root\nWORKDIR /a\nWORKDIR b/../c\nENV W=/x\nWORKDIR $W/y/\nUSER 12",
  },
  {
    name: "config-workdir-root",
    dockerfile: "FROM base\nWORKDIR /\nWORKDIR srv\nWORKDIR /tmp/../made",
  },
  {
    name: "config-workdir-link",
    dockerfile: "FROM base\nRUN mkdir /real && ln -s real /l\nWORKDIR /l/sub\nRUN touch here",
  },
  {
    name: "config-stopsignal",
    dockerfile: "FROM base\nARG S=QUIT\nSTOPSIGNAL SIG$S",
  },
  { name: "config-stopsignal-number", dockerfile: "FROM base\nSTOPSIGNAL 9" },
  {
    name: "config-maintainer",
    dockerfile: "FROM base\nMAINTAINER Some One <some@one.example>\nLABEL a=b",
  },
  {
    name: "config-onbuild",
    dockerfile: "FROM base\nONBUILD COPY . /src\nONBUILD RUN echo x > /y\nONBUILD ENV A=b",
  },
  {
    name: "config-onbuild-used",
    dockerfile:
      "FROM base AS parent\nONBUILD RUN echo x > /y\nONBUILD ENV A=b\nONBUILD COPY f /f\n" +
      "ONBUILD WORKDIR /ob\nFROM parent\nRUN echo $A > z",
    files: { f: "f" },
  },
  { name: "config-scratch", dockerfile: 'FROM scratch\nENV A=1\nCMD ["/x"]\nLABEL a=b' },
  { name: "config-only-from", dockerfile: "FROM base" },
  {
    name: "config-args",
    dockerfile:
      "ARG TAG=latest\nARG G=global\nFROM base:${TAG}\nARG G\nARG L=${G}-local\nARG N\nARG E=\n" +
      "LABEL g=$G l=$L n=[$N] e=[$E] t=[$TAG]\nENV L=env\nARG L=again\nLABEL l2=$L\nRUN echo $G $L > /x",
    buildArgs: { E: "given", TAG: "latest" },
  },
  {
    name: "config-arg-scope",
    dockerfile:
      "FROM base AS one\nARG V=one\nRUN echo $V > /1\nFROM one\nRUN echo [$V] > /2\nARG V=two\nRUN echo $V > /3\n" +
      "FROM base\nRUN echo [$V] > /4\nCOPY --from=1 /1 /2 /3 /",
  },
  {
    name: "config-platform-args",
    dockerfile:
      "FROM --platform=$BUILDPLATFORM base\nARG TARGETPLATFORM\nARG TARGETOS TARGETARCH TARGETVARIANT\n" +
      "ARG BUILDPLATFORM BUILDOS BUILDARCH TARGETSTAGE\nRUN env | grep -E '^(TARGET|BUILD)' | sort > /x",
  },
  {
    name: "config-target",
    dockerfile:
      "FROM base AS one\nRUN echo 1 > /1\nFROM base AS Two\nARG TARGETSTAGE\nRUN echo $TARGETSTAGE > /2\n" +
      "FROM nowhere.invalid/none AS three",
    target: "two",
  },
  { name: "config-target-missing", dockerfile: "FROM base AS one", target: "two", fails: true },
  {
    name: "config-escape",
    dockerfile:
      "# escape=`\nFROM base\nENV P=C:\\dir `\n  Q=`$x\nCOPY a `\n  /b/\nRUN echo `\n  hi > /c",
    files: { a: "a" },
  },
  {
    name: "config-epoch",
    deliberate: {
      why: "SOURCE_DATE_EPOCH is the latest time in layers too, as with rewrite-timestamp",
      paths: ["a"],
    },
    dockerfile: "FROM base\nLABEL a=b\nCOPY a /a",
    files: { a: "a" },
    buildArgs: { SOURCE_DATE_EPOCH: "1234567890" },
  },
  {
    name: "config-inherit",
    dockerfile:
      'FROM base AS one\nENV A=1\nUSER user\nWORKDIR /w\nCMD ["x"]\nEXPOSE 1\nVOLUME /v\nLABEL l=1\n' +
      "STOPSIGNAL 3\nFROM one AS two\nENV B=2\nFROM two\nLABEL m=2",
  },
];
