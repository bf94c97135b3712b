/** Stages, named contexts, and whole builds as people write them. */
import type { Case } from "./case.ts";

export const STAGE_CASES: Case[] = [
  {
    name: "stage-unused-fails",
    dockerfile: "FROM base AS broken\nRUN exit 1\nFROM base AS used\nRUN echo fine > /x",
  },
  {
    name: "stage-by-number",
    dockerfile:
      "FROM base\nRUN echo 0 > /f\nFROM base\nRUN echo 1 > /f\nFROM base\nCOPY --from=0 /f /a\nCOPY --from=1 /f /b",
  },
  {
    name: "stage-case",
    dockerfile: "FROM base AS Build\nRUN echo x > /f\nFROM build AS next\nCOPY --from=bUiLd /f /g",
  },
  {
    name: "stage-shadows-image",
    dockerfile: "FROM base AS base\nRUN echo shadow > /f\nFROM base\nRUN cat /f > /g",
  },
  {
    name: "stage-later",
    dockerfile: "FROM base\nCOPY --from=later /f /f\nFROM base AS later\nRUN touch /f",
  },
  {
    name: "stage-later-named",
    dockerfile: "FROM base AS first\nCOPY --from=later /f /f\nFROM base AS later\nRUN touch /f",
    target: "first",
    fails: true,
  },
  {
    name: "stage-later-numbered",
    dockerfile: "FROM base AS first\nCOPY --from=1 /f /f\nFROM base AS later\nRUN touch /f",
    target: "first",
    fails: true,
  },
  {
    name: "stage-later-mounted",
    dockerfile: "FROM base AS first\nRUN --mount=from=later,target=/m touch /f\n" +
      "FROM base AS later\nRUN touch /f",
    target: "first",
    fails: true,
  },
  {
    name: "stage-own",
    dockerfile: "FROM base AS first\nCOPY --from=first /etc/passwd /f",
    fails: true,
  },
  {
    name: "stage-args",
    dockerfile: "ARG G=1\nFROM base AS a\nARG G\nARG L=2\nARG U\nENV L=env\nRUN true\n" +
      "FROM a AS b\nRUN true\nARG M=5\nRUN true\nFROM b\nRUN env | grep -E '^[GLUM]=' | sort > /e",
    buildArgs: { U: "u" },
  },
  {
    name: "stage-copy-root",
    dockerfile:
      "FROM base AS one\nRUN mkdir -p /x/y && echo z > /x/y/z && rm -r /srv\nFROM scratch\nCOPY --from=one /x /\nCOPY --from=one /etc /etc",
  },
  {
    name: "stage-chain",
    dockerfile:
      "FROM base AS a\nRUN echo a > /a\nFROM a AS b\nRUN rm /a; echo b > /b\nFROM b AS c\nRUN echo a2 > /a\nFROM c",
  },
  {
    name: "context-image",
    dockerfile:
      "FROM other\nCOPY --from=third /etc/passwd /p\nRUN --mount=from=third,target=/t cat /t/etc/group > /g",
    contexts: { other: "docker-image://base", third: "docker-image://base:latest" },
  },
  {
    name: "context-folder",
    dockerfile:
      "FROM base\nCOPY --from=extra f /f\nCOPY --from=extra . /all/\nRUN --mount=from=extra,target=/m cat /m/d/g > /g\n" +
      "COPY --from=extra --chown=user d /d",
    contexts: {
      extra: {
        f: "f",
        "d/g": { data: "g", mode: 0o700 },
        "skip/x": "x",
        ".dockerignore": "skip\n",
      },
    },
  },
  {
    name: "context-over-stage",
    dockerfile: "FROM base AS lib\nRUN echo stage > /f\nFROM base\nCOPY --from=lib /f /f",
    contexts: { lib: { f: "named\n" } },
  },
  {
    name: "context-over-image",
    dockerfile: "FROM alpine:3\nRUN echo x > /x",
    contexts: { "alpine:3": "docker-image://base" },
  },
  {
    name: "context-folder-as-base",
    deliberate: {
      why: "BuildKit's history has no line for the layer that the folder became",
      history: true,
    },
    dockerfile: "FROM tree\nCOPY f /g",
    files: { f: "f" },
    contexts: { tree: { "x/y": { data: "y", mode: 0o755 }, l: { link: "x" } } },
  },
  {
    name: "context-git",
    dockerfile:
      "FROM base\nCOPY --from=repo /sub /s\nRUN --mount=from=repo,target=/r ls /r > /names",
    contexts: { repo: "{{git}}#main" },
  },
  {
    name: "stage-circle",
    dockerfile: "FROM base AS a\nCOPY --from=b /x /x\nFROM base AS b\nCOPY --from=a /x /x",
    fails: true,
  },
  {
    name: "stage-itself",
    dockerfile: "FROM base AS a\nCOPY --from=a /x /x",
    fails: true,
  },
  {
    name: "dockerfile-ignore-own",
    dockerfile: "FROM scratch\nCOPY . /",
    files: { "Dockerfile.dockerignore": "a\n", ".dockerignore": "b\n", a: "a", b: "b" },
  },
  {
    name: "build-web-app",
    dockerfile: "ARG BASE=base\nFROM ${BASE} AS deps\nWORKDIR /app\nCOPY package.json ./\n" +
      "RUN --mount=type=cache,target=/root/.npm mkdir node_modules && cp package.json node_modules/dep\n" +
      "FROM deps AS build\nCOPY --exclude=**/*.test src ./src\nRUN cat src/* > bundle.js\n" +
      "FROM base\nLABEL org.opencontainers.image.title=app\nWORKDIR /app\nCOPY --from=build --chown=user:user /app/bundle.js ./\n" +
      "COPY --from=deps --link /app/node_modules ./node_modules\nUSER user\nEXPOSE 3000\n" +
      'HEALTHCHECK --interval=30s CMD wget -qO- localhost:3000\nENTRYPOINT ["cat"]\nCMD ["bundle.js"]',
    files: { "package.json": "{}\n", "src/a.js": "a\n", "src/b.js": "b\n", "src/a.test": "t\n" },
  },
];
