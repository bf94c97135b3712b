import assert from "node:assert/strict";
import { SvcError } from "../../base/errors.ts";
import type { ImageResolver, ResolvedImage } from "../../oci/resolver.ts";
import type { ImageConfig } from "../../oci/types.ts";
import { parseIgnore } from "../parse/ignore.ts";
import { parseDockerfile } from "../parse/parse.ts";
import { type BuildPlan, chain, type CopyVertex, type RunVertex, type Vertex } from "./graph.ts";
import { planBuild, type PlanRequest } from "./plan.ts";

const BASE: ImageConfig = {
  os: "linux",
  architecture: "amd64",
  created: "2020-01-01T00:00:00Z",
  config: {
    Env: ["PATH=/bin", "BASE=yes"],
    Cmd: ["basecmd"],
    Entrypoint: ["baseentry"],
    WorkingDir: "/base",
  },
  rootfs: { type: "layers", diff_ids: ["sha256:" + "1".repeat(64)] },
};

function images(configs: Record<string, ImageConfig>, asked: string[] = []): ImageResolver {
  return {
    resolve(name) {
      asked.push(name);
      const config = configs[name];
      if (!config) {
        return Promise.reject(new SvcError("manifest_unknown", `Cannot find image ${name}: none`));
      }
      return Promise.resolve({ name, config, repository: name } as ResolvedImage);
    },
    place: () => {
      throw new Error("a plan imports nothing");
    },
    target: () => {
      throw new Error("a plan publishes nothing");
    },
  };
}

function plan(
  text: string,
  options: Partial<PlanRequest> & { asked?: string[] } = {},
): Promise<BuildPlan> {
  return planBuild({
    dockerfile: parseDockerfile(text),
    buildArgs: {},
    labels: {},
    images: images({ base: BASE, other: { ...BASE, config: {} } }, options.asked),
    platform: { os: "linux", architecture: "amd64" },
    ...options,
  });
}

const names = (vertices: Vertex[]) => vertices.map((vertex) => vertex.name);
const last = <T extends Vertex>(result: BuildPlan) => result.root as T;

Deno.test("a stage inherits, expands and records what docker would", async () => {
  const result = await plan(
    [
      "ARG TAG=base",
      "FROM ${TAG}",
      "ARG WHO=world OTHER",
      "ENV GREETING=hello-$WHO PATH=/x:$PATH",
      "WORKDIR sub",
      "RUN echo $GREETING",
      'RUN ["/bin/prog", "$WHO"]',
      "COPY --chown=1:2 a b*  ./",
      "USER app",
      "EXPOSE 80 90-91/udp",
      'LABEL a.b="c d"',
      "VOLUME /data",
      "STOPSIGNAL SIGQUIT",
      "HEALTHCHECK --interval=5s CMD curl localhost",
      'ENTRYPOINT ["run"]',
      "ONBUILD RUN echo child",
    ].join("\n"),
    { buildArgs: { WHO: "you" }, labels: { extra: "1" } },
  );
  assert.deepEqual(names(result.vertices), [
    "FROM base",
    "[stage 1/4] WORKDIR sub",
    "[stage 2/4] RUN echo $GREETING",
    '[stage 3/4] RUN ["/bin/prog", "$WHO"]',
    "[stage 4/4] COPY --chown=1:2 a b*  ./",
  ]);
  const copy = last<CopyVertex>(result);
  assert.equal(copy.destination, "/base/sub/");
  assert.deepEqual(copy.parts, [{ from: "context", sources: ["a", "b*"], unpack: false }]);
  const run = result.vertices[2] as RunVertex;
  assert.deepEqual(run.args, ["/bin/sh", "-c", "echo $GREETING"]);
  assert.deepEqual(run.env, ["PATH=/x:/bin", "BASE=yes", "WHO=you", "GREETING=hello-you"]);
  assert.equal(run.workingDir, "/base/sub");
  assert.deepEqual((result.vertices[3] as RunVertex).args, ["/bin/prog", "$WHO"]);
  const { config } = result;
  assert.deepEqual(config.Entrypoint, ["run"]);
  assert.equal(config.Cmd, undefined, "ENTRYPOINT resets the base's CMD");
  assert.deepEqual(Object.keys(config.ExposedPorts!), ["80/tcp", "90/udp", "91/udp"]);
  assert.deepEqual(config.Labels, { "a.b": "c d", extra: "1" });
  assert.deepEqual(config.Healthcheck, { Test: ["CMD-SHELL", "curl localhost"], Interval: 5e9 });
  assert.deepEqual(config.OnBuild, ["RUN echo child"]);
  assert.equal(config.User, "app");
  const created = result.history.map(({ entry }) => entry.created_by);
  assert.ok(
    created.includes("RUN |2 WHO=you OTHER= /bin/sh -c echo $GREETING # buildkit"),
    `${created}`,
  );
  assert.ok(created.includes('ENTRYPOINT ["run"]'));
  assert.equal(result.history.filter(({ vertex }) => vertex).length, 4);
});

Deno.test("only what the target needs is planned, and no other image resolved", async () => {
  const asked: string[] = [];
  const text = [
    "FROM base AS one",
    "RUN one",
    "FROM missing AS two",
    "RUN two",
    "FROM one AS three",
    "RUN three",
    "FROM scratch",
    "COPY --from=three /x /y",
    "COPY --from=0 /x /z",
    "COPY --from=other /q /",
  ].join("\n");
  const result = await plan(text, { asked });
  assert.deepEqual(asked.sort(), ["base", "other"]);
  assert.deepEqual(names(result.vertices), [
    "FROM base",
    "[one 1/1] RUN one",
    "[three 1/1] RUN three",
    "[stage-3 1/3] COPY --from=three /x /y",
    "[stage-3 2/3] COPY --from=0 /x /z",
    "FROM other",
    "[stage-3 3/3] COPY --from=other /q /",
  ]);
  assert.deepEqual(chain(result.root).length, 3);
  assert.equal(result.base, undefined);
  const target = await plan(text, { target: "ONE" });
  assert.deepEqual(names(target.vertices), ["FROM base", "[one 1/1] RUN one"]);
  assert.equal(target.base?.name, "base");
  await assert.rejects(plan(text, { target: "on" }), /did you mean one\?/);
});

Deno.test("platform arguments and the scopes of ARG", async () => {
  const result = await plan(
    [
      "ARG VERSION=1",
      "FROM --platform=$TARGETPLATFORM base",
      "ARG VERSION TARGETARCH UNSET",
      "RUN build",
      "FROM base",
      "RUN later",
    ].join("\n"),
    { target: "0", buildArgs: { VERSION: "2", HTTP_PROXY: "http://p" } },
  );
  const run = last<RunVertex>(result);
  assert.deepEqual(run.env, ["PATH=/bin", "BASE=yes", "VERSION=2", "TARGETARCH=amd64"]);
  assert.deepEqual(run.hiddenEnv, ["HTTP_PROXY=http://p", "http_proxy=http://p"]);
});

Deno.test("heredocs, mounts and shells", async () => {
  const result = await plan(
    [
      "FROM base",
      'SHELL ["/bin/ash", "-ec"]',
      "RUN <<EOF",
      "echo one",
      "EOF",
      "RUN <<EOF",
      "#!/bin/prog",
      "text",
      "EOF",
      "ENV N=5",
      "COPY <<a.txt <<'b.txt' /dir/",
      "value $N",
      "a.txt",
      "value $N",
      "b.txt",
      "RUN --mount=type=cache,target=/cache,id=c$N,sharing=locked " +
      "--mount=type=bind,source=src,target=in --mount=type=tmpfs,target=/t --network=none go",
    ].join("\n"),
  );
  const [, script, shebang, copy, run] = result.vertices as [
    Vertex,
    RunVertex,
    RunVertex,
    CopyVertex,
    RunVertex,
  ];
  assert.deepEqual(script.args, ["/bin/ash", "-ec", "echo one\n"]);
  assert.deepEqual(shebang.args, ["/bin/ash", "-ec", "/dev/pipes/EOF"]);
  assert.equal(shebang.script?.data, "#!/bin/prog\ntext\n");
  assert.deepEqual(copy.inline, [
    { name: "a.txt", data: "value 5\n" },
    { name: "b.txt", data: "value $N\n" },
  ]);
  assert.equal(run.network, "none");
  assert.deepEqual(run.mounts.map((mount) => mount.target), ["/cache", "/base/in", "/t"]);
  assert.equal(run.mounts[0].type === "cache" && run.mounts[0].id, "c5");
});

Deno.test("ONBUILD triggers of the base run first and once", async () => {
  const withTrigger: ImageConfig = {
    ...BASE,
    config: { ...BASE.config, OnBuild: ["COPY . /src", "RUN make"] },
  };
  const result = await plan("FROM base\nRUN after\n", { images: images({ base: withTrigger }) });
  assert.deepEqual(names(result.vertices), [
    "FROM base",
    "[stage 1/3] COPY . /src",
    "[stage 2/3] RUN make",
    "[stage 3/3] RUN after",
  ]);
  assert.equal(result.config.OnBuild, undefined);
});

Deno.test("ONBUILD triggers that are no step of the stage are refused", async () => {
  for (const trigger of ["FROM other", "ONBUILD RUN x", "RUN a\nRUN b", ""]) {
    const base: ImageConfig = { ...BASE, config: { ...BASE.config, OnBuild: [trigger] } };
    await assert.rejects(
      plan("FROM base\nRUN after\n", { images: images({ base }) }),
      /ONBUILD trigger/,
      trigger,
    );
  }
});

Deno.test("what cannot be done is refused by name and line", async () => {
  const cases: [string, RegExp][] = [
    ["FROM base\n\nRUN --security=insecure x", /line 3: RUN --security=insecure: .*not allowed/],
    ["FROM base\nRUN --device=a.example/b=c,must x", /line 2: RUN --device=.*"must" is not known/],
    ["FROM base\nRUN --device=required x", /line 2: RUN --device=required: .*no name/],
    ["FROM base\nADD --checksum=sha256:00 file /", /line 2: ADD --checksum: file is neither a URL/],
    ["FROM base\nADD --checksum=x https://host.example/a /", /--checksum=x is not of the form/],
    ["FROM base\nADD https://host.example/a.git?depth=2 /", /unknown parameter depth/],
    ["FROM base\nADD http://[bad/x /", /line 2: ADD http:\/\/\[bad\/x: it is not a valid URL/],
    ["FROM base\nADD https://host:99999/x /", /line 2: ADD https:.*: it is not a valid URL/],
    ["FROM base\nADD git@host.example:a.git#-x /", /begins with a dash/],
    ["FROM base\nADD git@host.example:a.git#:../x /", /leads out of it/],
    [
      "FROM base AS a\nCOPY --from=b x x\nFROM a AS b",
      /line 2: --from=b: that stage begins on line 3, after this one/,
    ],
    ["FROM base AS a\nCOPY --from=1 x x\nFROM a", /line 2: --from=1: .*begins on line 3/],
    ["FROM base AS a\nRUN --mount=from=b true\nFROM a AS b", /line 2: --from=b: .*on line 3/],
    ["FROM base AS a\nCOPY --from=a x x", /line 2: --from=a: that is the stage it stands in/],
    [
      "FROM base AS build\nFROM base\nCOPY --from=buidl x x",
      /^Line 3: buidl is not an earlier stage; did you mean build\? \(and as an image: .*buidl/,
    ],
    ["FROM base\nCOPY --from=host:1/gone x x", /^Line 2: Cannot find image host:1\/gone/],
    ["FROM base\nSTOPSIGNAL SIGNOPE", /line 2: STOPSIGNAL SIGNOPE: expected a signal/],
    ["FROM base\nSTOPSIGNAL 0", /line 2: STOPSIGNAL 0: expected a signal/],
    ["FROM base\nCOPY a b c", /line 2: .*end (in|with) \//],
    ["FROM gone", /^Line 1: Cannot find image gone/],
    ["FROM base\nCOPY --from=7 a b", /line 2/i],
  ];
  for (const [text, message] of cases) {
    await assert.rejects(plan(text), (error: unknown) => {
      assert.ok(error instanceof SvcError);
      assert.match(error.message, message, text);
      return true;
    });
  }
});

const warned = async (text: string, rules = "") => {
  const dockerfile = parseDockerfile(text);
  const { warnings } = await plan(text, {
    dockerfile,
    checks: { text, ignore: parseIgnore(rules) },
  });
  return warnings.map(({ rule, line, message }) => `${line} ${rule}: ${message}`);
};

Deno.test("checks know what base images set", async () => {
  assert.deepEqual(
    await warned(
      "FROM base AS one\nARG A\nENV X=$BASE$A Y=$PYTHONPATH Z=${LD:-}\nFROM one\nENV B=$X$BSAE\n" +
        "EXPOSE ${PORT:-80}\nCOPY <<EOF <<'RAW' /x/\n$HERE\nEOF\n$RAW\nRAW\n",
    ),
    [
      "3 UndefinedVar: Nothing in the stage sets $PYTHONPATH; declare it with ARG PYTHONPATH",
      "3 UndefinedVar: Nothing in the stage sets $LD; declare it with ARG LD",
      "5 UndefinedVar: Nothing in the stage sets $BSAE; did you mean $BASE?",
      "7 UndefinedVar: Nothing in the stage sets $HERE; declare it with ARG HERE",
    ],
  );
});

Deno.test("checks know for which platform a base image is", async () => {
  assert.deepEqual(
    await warned(
      "FROM --platform=$BUILDPLATFORM base\nFROM --platform=linux/s390x base AS s390x\n",
    ),
    [
      "2 InvalidBaseImagePlatform: base is for linux/amd64, not for linux/s390x: so is what is built on it",
    ],
  );
  assert.deepEqual(
    await warned(
      "# check=skip=InvalidBaseImagePlatform\nFROM --platform=linux/s390x base AS s390x\n",
    ),
    [],
  );
});

Deno.test("checks know what the context leaves out", async () => {
  const text = "FROM base AS one\nARG D=tmp\nCOPY ./$D/* a /x/\nADD x.md /\n";
  const rules = "tmp\n*.md\n";
  assert.deepEqual(await warned(text, rules), []);
  assert.deepEqual(
    await warned(
      `# check=experimental=CopyIgnoredFile\n${text}FROM base\nCOPY --from=one b.md /\n`,
      rules,
    ),
    [
      "4 CopyIgnoredFile: COPY takes ./tmp/*, which .dockerignore leaves out of the context",
      "5 CopyIgnoredFile: ADD takes x.md, which .dockerignore leaves out of the context",
    ],
  );
  assert.deepEqual(await warned(`# check=experimental=all\n${text}`, `${rules}!tmp/a`), []);
  await assert.rejects(
    warned("# check=error=true\nFROM base\nENV X=$NOPE\n"),
    /line 3: UndefinedVar: Nothing in the stage sets \$NOPE/,
  );
});
