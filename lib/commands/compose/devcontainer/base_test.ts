/** What is told of an image before it is built. */
import assert from "node:assert/strict";
import { SvcError } from "../../../base/errors.ts";
import type { Service } from "../../../compose/service.ts";
import type { Registries } from "../../../transfer/registries.ts";
import { baseOf } from "./base.ts";

/** Of registries without images. */
async function factsOf(service: Service, fresh = false) {
  const asked: string[] = [];
  const warnings: string[] = [];
  const get = (host = "") => ({
    resolve(repository: string, reference: string) {
      asked.push(`${host && `${host}/`}${repository}:${reference}`);
      if (repository === "hidden") throw new SvcError("denied", "Cannot look");
      return Promise.resolve(undefined);
    },
  });
  const base = await baseOf(service, {
    registries: { get } as unknown as Registries,
    fresh,
    signal: new AbortController().signal,
    warn: (text) => warnings.push(text),
  });
  return { ...base, asked, warnings };
}

const facts = (
  lines: string[],
  build: { target?: string; args?: Record<string, string> } = {},
) => factsOf({ build: { ...build, dockerfile_inline: lines.join("\n") } });

Deno.test("base: the stage that is built, those below it, and the image that they begin with", async () => {
  const lines = [
    ...["ARG V=1", "FROM base:$V AS Low", "USER one", 'ENTRYPOINT ["in"]', 'CMD ["a"]'],
    ...["FROM other", "RUN x", "FROM low", "ARG U=two", "USER $U"],
  ];
  const { config, image, from, text, asked } = await facts(lines, { args: { V: "2" } });
  assert.deepEqual([image, asked], ["base:2", ["base:2"]]);
  assert.deepEqual(config, { User: "two", Entrypoint: ["in"], Cmd: ["a"] });
  assert.equal(from, "svc_base");
  assert.equal(text.split("\n")[7], "FROM low AS svc_base");
  const low = await facts([...lines, 'SHELL ["bash", "-c"]', "ENTRYPOINT go"], {});
  assert.deepEqual(low.config.Entrypoint, ["bash", "-c", "go"]);
  assert.deepEqual(low.config.Cmd, [], "an entrypoint drops the command below it");
  assert.equal((await facts(lines, { target: "low" })).from, "low");
  assert.equal((await facts(["FROM scratch"])).image, undefined);
});

Deno.test("base: an image that nobody may look at is told, and keeps nobody from going on", async () => {
  const { warnings, config } = await facts(["FROM hidden", "USER me"]);
  assert.match(warnings.join(), /what hidden says of dev containers is not known: Cannot look/);
  assert.deepEqual(config, { User: "me" });
});

Deno.test("base: an image that is to be pulled is read where it comes from", async () => {
  const read = async (image: string, fresh: boolean) => {
    const { asked, from, image: named } = await factsOf({ image }, fresh);
    assert.equal(named, image);
    return [asked.join(), from];
  };
  assert.deepEqual(await read("app:1", false), ["app:1", "app:1"]);
  assert.deepEqual(await read("app:1", true), Array(2).fill("docker.io/library/app:1"));
  assert.deepEqual(await read("team/app:1", true), Array(2).fill("docker.io/team/app:1"));
  assert.deepEqual(await read("r.io/app:1", true), Array(2).fill("r.io/app:1"));
});
