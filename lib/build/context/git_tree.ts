/** A git repository's files at one commit, fetched by the git program. */
import { run, type RunResult } from "../../base/process.ts";
import { SvcError } from "../../base/errors.ts";
import { readNames } from "../../sys/directory.ts";
import { chmod, lstat, S_IFDIR, S_IFLNK, S_IFMT, setTimes } from "../../sys/files.ts";
import type { OpenTree } from "../inputs.ts";
import type { TreeSource, TreeTools } from "../plan/graph.ts";
import type { GitSource } from "./git_url.ts";
import { isDirectory, locate } from "../../sys/rooted.ts";

/** What env(1) exits with where there is no such program. */
const NO_PROGRAM = 127;

const COMMIT = /^[0-9a-f]{40}([0-9a-f]{24})?$/;

/** Variables of the server that would lead git elsewhere. */
const FOREIGN = [
  "GIT_DIR",
  "GIT_WORK_TREE",
  "GIT_INDEX_FILE",
  "GIT_OBJECT_DIRECTORY",
  "GIT_ALTERNATE_OBJECT_DIRECTORIES",
  "GIT_CONFIG_COUNT",
  "GIT_CONFIG_PARAMETERS",
  "GIT_TEMPLATE_DIR",
  "GIT_SSH",
  "GIT_ASKPASS",
  "SSH_ASKPASS",
];

/** One repository's work with git: of this machine's settings only PATH and proxies count. */
class Git {
  constructor(
    readonly source: GitSource,
    readonly home: string,
    readonly agent: string | undefined,
    readonly signal: AbortSignal,
  ) {}

  #env(): Record<string, string> {
    return {
      HOME: this.home,
      LC_ALL: "C",
      GIT_CONFIG_NOSYSTEM: "1",
      GIT_CONFIG_GLOBAL: "/dev/null",
      GIT_TERMINAL_PROMPT: "0",
      // A repository's submodules may not lead to commands or to files of this host.
      GIT_ALLOW_PROTOCOL: "http:https:git:ssh",
      GIT_SSH_COMMAND: "ssh -F /dev/null -o BatchMode=yes -o StrictHostKeyChecking=accept-new " +
        `-o UserKnownHostsFile='${this.home}/known_hosts'`,
      ...(this.agent && { SSH_AUTH_SOCK: this.agent }),
    };
  }

  async try(...args: string[]): Promise<RunResult> {
    const foreign = this.agent ? FOREIGN : [...FOREIGN, "SSH_AUTH_SOCK"];
    const unset = foreign.flatMap((name) => ["-u", name]);
    const options = { env: this.#env(), signal: this.signal };
    const result = await run("env", [...unset, "git", ...args], options);
    if (result.code !== NO_PROGRAM) return result;
    throw new SvcError(
      "prerequisite_missing",
      `Cannot fetch ${this.source.remote}: the program git is not on PATH`,
      { help: "install git on the server" },
    );
  }

  async ok(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.try(...args);
    if (code === 0) return stdout;
    const words = stderr.trim().split("\n").slice(-3).join("; ");
    throw new SvcError(
      "upstream_failed",
      `Cannot fetch ${this.source.remote}: git says: ${words}`,
      {
        help: "check the address and, for ssh, that the build has an agent (--ssh)",
      },
    );
  }
}

interface Resolved {
  commit: string;
  /** Its name at the remote, where a server gives commits by name only. */
  ref: string;
}

class GitTree implements TreeSource {
  #resolved: Promise<Resolved> | undefined;

  constructor(readonly source: GitSource) {}

  async identity(tools: TreeTools): Promise<string> {
    const { subdir = "", keepGitDir = false, remote } = this.source;
    const { commit } = await this.#with(tools, (git) => this.#resolve(git));
    // The folder .git names the remote; without it only the files count.
    return `git ${commit} ${subdir} ${keepGitDir ? remote : ""}`;
  }

  async open(tools: TreeTools): Promise<OpenTree> {
    const folder = await tools.temporary();
    const work = `${folder.path}/work`;
    try {
      await Deno.mkdir(work);
      const subdir = this.source.subdir ?? "";
      await this.#with(tools, (git) => this.#checkout(git, work));
      const found = locate(work, subdir);
      if (!isDirectory(found.host)) {
        throw new SvcError(
          "build_failed",
          `Cannot use ${this.source.remote}: it has no folder ${subdir}`,
        );
      }
      return {
        root: found.host,
        ownersKept: false,
        [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
      };
    } catch (error) {
      await folder[Symbol.asyncDispose]();
      throw error;
    }
  }

  async #with<T>(tools: TreeTools, work: (git: Git) => Promise<T>): Promise<T> {
    await using held = new AsyncDisposableStack();
    const home = held.use(await tools.temporary());
    const ssh = !/^(https?|git):/i.test(this.source.remote);
    const agent = ssh && tools.agent ? held.use(await tools.agent()) : undefined;
    return await work(new Git(this.source, home.path, agent?.path, tools.signal));
  }

  #resolve(git: Git): Promise<Resolved> {
    return this.#resolved ??= this.#ask(git);
  }

  async #ask(git: Git): Promise<Resolved> {
    const { remote, ref = "HEAD", checksum } = this.source;
    const check = (resolved: Resolved): Resolved => {
      if (checksum === undefined || checksum.length >= 7 && resolved.commit.startsWith(checksum)) {
        return resolved;
      }
      throw new SvcError(
        "build_failed",
        `Cannot use ${remote}: ${ref} is commit ${resolved.commit}, not ${checksum}`,
        { help: "the repository has changed, or the checksum is of another commit" },
      );
    };
    if (COMMIT.test(ref)) return check({ commit: ref, ref });
    const text = await git.ok("ls-remote", "--", remote, ref, `${ref}^{}`);
    const refs = new Map(
      text.split("\n").filter(Boolean).map((line) =>
        line.split("\t").reverse() as [string, string]
      ),
    );
    const names = [ref, `refs/heads/${ref}`, `refs/tags/${ref}`];
    const name = names.find((candidate) => refs.has(candidate));
    if (name === undefined) {
      throw new SvcError("build_failed", `Cannot use ${remote}: it has no branch or tag ${ref}`);
    }
    return check({ commit: refs.get(`${name}^{}`) ?? refs.get(name)!, ref: name });
  }

  async #checkout(git: Git, work: string): Promise<void> {
    const { remote, keepGitDir } = this.source;
    const { commit, ref } = await this.#resolve(git);
    const at = (...args: string[]) => ["-C", work, "-c", "core.hooksPath=/dev/null", ...args];
    await git.ok(...at("init", "-q"));
    await git.ok(...at("remote", "add", "origin", remote));
    const fetched = await git.try(...at("fetch", "-q", "--depth=1", "origin", commit));
    if (fetched.code !== 0) {
      // Servers may refuse commits that are no branch's end, and shallow fetches altogether.
      const shallow = await git.try(...at("fetch", "-q", "--depth=1", "origin", ref));
      const has = await git.try(...at("cat-file", "-e", `${commit}^{commit}`));
      if (shallow.code !== 0 || has.code !== 0) {
        await git.ok(
          ...at("fetch", "-q", "--tags", "origin", "+refs/heads/*:refs/remotes/origin/*"),
        );
      }
    }
    await git.ok(...at("checkout", "-q", "--detach", commit));
    await git.ok(...at("submodule", "-q", "update", "--init", "--recursive", "--depth=1"));
    const time = Number((await git.ok(...at("log", "-1", "--format=%ct"))).trim());
    if (!keepGitDir) await removeGitFolders(work);
    settle(work, time);
  }
}

/** The repository's and its submodules' own files. */
async function removeGitFolders(folder: string): Promise<void> {
  for (const name of readNames(folder)) {
    const host = `${folder}/${name}`;
    if (name === ".git") await Deno.remove(host, { recursive: true });
    else if (isDirectory(host)) await removeGitFolders(host);
  }
}

/** Modes that do not depend on this process's mask; times are the commit's: equal commits, equal trees. */
function settle(host: string, time: number): void {
  const { mode } = lstat(host);
  const type = mode & S_IFMT;
  if (type === S_IFDIR) { for (const name of readNames(host)) settle(`${host}/${name}`, time); }
  if (type !== S_IFLNK) chmod(host, type === S_IFDIR || (mode & 0o100) !== 0 ? 0o755 : 0o644);
  setTimes(host, time);
}

export function gitTree(source: GitSource): TreeSource {
  return new GitTree(source);
}
