/** A git repository's files at one commit, fetched by the git program. */
import { type GroupResult, runGroup } from "../../base/process_group.ts";
import { SvcError } from "../../base/errors.ts";
import { readNames } from "../../sys/directory.ts";
import { chmod, lstat, S_IFDIR, S_IFLNK, S_IFMT, setTimes } from "../../sys/files.ts";
import type { OpenTree } from "../inputs.ts";
import type { Material, TreeSource, TreeTools } from "../plan/graph.ts";
import { CheckedProxy } from "./checked_proxy.ts";
import type { GitSource } from "./git_url.ts";
import { isDirectory, locate } from "../../sys/rooted.ts";
import { downloadTooLarge, downloadTooSlow, PATIENCE_MS, withoutCredentials } from "./download.ts";

/** Longest time of one git command that keeps reporting progress, in milliseconds. */
const TOTAL_MS = 3_600_000;

/** Bytes of ulimit(1)'s unit. */
const BLOCK = 512;

export interface GitTreeOptions {
  /** How long git may print nothing, in milliseconds. */
  patienceMs?: number;
}

/** What env(1) exits with where there is no such program. */
const NO_PROGRAM = 127;

const COMMIT = /^[0-9a-f]{40}([0-9a-f]{24})?$/;

/** Variables of the server that would point git at another repository or program. */
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

/** Variables that would lead git past the proxy that checks addresses. */
const PROXIES = [
  ...["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "no_proxy"],
  "GIT_PROXY_COMMAND",
];

/** Part of ssh's configuration that refuses all hosts not named before it: submodules may name any host. */
const NO_SSH = "Host *\n  ProxyCommand false\n";

/** The host that ssh is to connect to, of `ssh://[user@]host[:port]/path` or `[user@]host:path`. */
function sshHost(remote: string): string {
  if (/^ssh:/i.test(remote)) return new URL(remote).hostname.replace(/^\[(.*)\]$/, "$1");
  return remote.slice(remote.indexOf("@") + 1).split(":")[0];
}

/** Runs git for one repository. Of this machine's settings only PATH and the proxy variables apply. */
class Git {
  constructor(
    readonly source: GitSource,
    readonly home: string,
    readonly agent: string | undefined,
    readonly limits: { patienceMs: number; maxBytes?: number },
    readonly signal: AbortSignal,
    /** Makes git's connections where addresses are checked. */
    readonly proxy?: CheckedProxy,
  ) {}

  #env(): Record<string, string> {
    return {
      HOME: this.home,
      LC_ALL: "C",
      GIT_CONFIG_NOSYSTEM: "1",
      GIT_CONFIG_GLOBAL: "/dev/null",
      GIT_TERMINAL_PROMPT: "0",
      // A repository's submodules may not lead to commands or to files of this host.
      GIT_ALLOW_PROTOCOL: this.proxy ? "http:https:ssh" : "http:https:git:ssh",
      ...this.proxy &&
        Object.fromEntries(
          ["http_proxy", "https_proxy", "all_proxy"].map((name) => [name, this.proxy!.url]),
        ),
      GIT_SSH_COMMAND:
        `ssh -F ${
          this.proxy ? `'${this.home}/ssh_config'` : "/dev/null"
        } -o BatchMode=yes -o StrictHostKeyChecking=accept-new ` +
        `-o UserKnownHostsFile='${this.home}/known_hosts'`,
      ...(this.agent && { SSH_AUTH_SOCK: this.agent }),
    };
  }

  async try(...args: string[]): Promise<GroupResult> {
    const { patienceMs, maxBytes } = this.limits;
    const foreign = [...FOREIGN, ...this.agent ? [] : ["SSH_AUTH_SOCK"]];
    if (this.proxy) foreign.push(...PROXIES);
    const unset = foreign.flatMap((name) => ["-u", name]);
    // The kernel refuses to write a file beyond the limit, whatever git does.
    const bound = maxBytes === undefined ? "unlimited" : String(Math.ceil(maxBytes / BLOCK));
    const result = await runGroup(
      "sh",
      ["-c", `ulimit -f ${bound}; exec "$@"`, "sh", "env", ...unset, "git", ...args],
      { env: this.#env(), signal: this.signal, silenceMs: patienceMs, totalMs: TOTAL_MS },
    );
    const { remote } = this.source;
    if (result.ended === "silent") throw downloadTooSlow(remote, patienceMs);
    if (result.ended === "slow") throw downloadTooSlow(remote, TOTAL_MS);
    if (result.ended === "endless") throw downloadTooLarge(remote, result.stdout.length);
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
    if (this.proxy?.refusal) throw this.proxy.refusal;
    const words = stderr.trim().split(/[\r\n]+/).slice(-3).join("; ");
    throw new SvcError(
      "upstream_failed",
      `Cannot fetch ${this.source.remote}: ${this.proxy?.unreachable ?? `git says: ${words}`}`,
      {
        help: "check the address and, for ssh, that the build has an agent (--ssh)",
      },
    );
  }
}

interface Resolved {
  commit: string;
  /** The commit's name at the remote, for servers that give commits only by name. */
  ref: string;
}

class GitTree implements TreeSource {
  #resolved: Promise<Resolved> | undefined;
  /** The commit that was checked out. */
  #taken: string | undefined;

  constructor(readonly source: GitSource, readonly options: GitTreeOptions) {}

  async identity(tools: TreeTools): Promise<string> {
    const { subdir = "", keepGitDir = false, remote } = this.source;
    const { commit } = await this.#with(tools, (git) => this.#resolve(git));
    // The folder .git holds the remote's address; without .git only the files count.
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

  material(): Material | undefined {
    if (!this.#taken) return undefined;
    const { remote, ref } = this.source;
    const uri = withoutCredentials(remote) + (ref === undefined ? "" : `#${ref}`);
    return { uri, digest: { [this.#taken.length === 40 ? "sha1" : "sha256"]: this.#taken } };
  }

  async #with<T>(tools: TreeTools, work: (git: Git) => Promise<T>): Promise<T> {
    await using held = new AsyncDisposableStack();
    const home = held.use(await tools.temporary());
    const ssh = !/^(https?|git):/i.test(this.source.remote);
    const agent = ssh && tools.agent ? held.use(await tools.agent()) : undefined;
    const { signal, maxBytes, checked } = tools;
    const { patienceMs = PATIENCE_MS } = this.options;
    const proxy = checked ? held.use(new CheckedProxy({ signal })) : undefined;
    if (proxy) await this.#checkRemote(proxy, home.path);
    const limits = { patienceMs, ...maxBytes !== undefined && { maxBytes } };
    return await work(new Git(this.source, home.path, agent?.path, limits, signal, proxy));
  }

  /**
   * Checks a remote whose connections do not go through the proxy: git:// is refused, and ssh learns the
   * checked address of the one host that it may connect to.
   */
  async #checkRemote(proxy: CheckedProxy, home: string): Promise<void> {
    const { remote } = this.source;
    if (/^https?:/i.test(remote)) {
      return void await Deno.writeTextFile(`${home}/ssh_config`, NO_SSH);
    }
    if (/^git:/i.test(remote)) {
      throw new SvcError(
        "denied",
        `Cannot fetch ${remote}: where git:// connects to cannot be checked`,
        { help: "use https:// or ssh://, or ask for --allow network.host" },
      );
    }
    const host = sshHost(remote);
    let addresses: string[];
    try {
      addresses = await proxy.addressesOf(host);
    } catch (error) {
      if (error instanceof SvcError) throw error;
      throw new SvcError("upstream_failed", `Cannot fetch ${remote}: ${(error as Error).message}`, {
        cause: error,
        help: "check the address, and that this server can reach it",
      });
    }
    await Deno.writeTextFile(
      `${home}/ssh_config`,
      `Host ${host}\n  HostName ${
        addresses[0]
      }\n  HostKeyAlias ${host}\n  ProxyCommand none\n${NO_SSH}`,
    );
  }

  #resolve(git: Git): Promise<Resolved> {
    return this.#resolved ??= this.#ask(git);
  }

  async #ask(git: Git): Promise<Resolved> {
    const { remote, ref = "HEAD", checksum } = this.source;
    const check = (resolved: Resolved): Resolved => {
      if (checksum === undefined || checksum.length >= 7 && resolved.commit.startsWith(checksum)) {
        this.#taken = resolved.commit;
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
    const fetched = await git.try(...at("fetch", "--progress", "--depth=1", "origin", commit));
    if (fetched.code !== 0) {
      // Servers may refuse a commit that is not a branch's head, or refuse shallow fetches.
      const shallow = await git.try(...at("fetch", "--progress", "--depth=1", "origin", ref));
      const has = await git.try(...at("cat-file", "-e", `${commit}^{commit}`));
      if (shallow.code !== 0 || has.code !== 0) {
        await git.ok(
          ...at("fetch", "--progress", "--tags", "origin", "+refs/heads/*:refs/remotes/origin/*"),
        );
      }
    }
    await git.ok(...at("checkout", "-q", "--detach", commit));
    await git.ok(...at("submodule", "update", "--progress", "--init", "--recursive", "--depth=1"));
    const time = Number((await git.ok(...at("log", "-1", "--format=%ct"))).trim());
    if (!keepGitDir) await removeGitFolders(work);
    settle(work, time);
  }
}

/** Removes .git of the repository and of its submodules. */
async function removeGitFolders(folder: string): Promise<void> {
  for (const name of readNames(folder)) {
    const host = `${folder}/${name}`;
    if (name === ".git") await Deno.remove(host, { recursive: true });
    else if (isDirectory(host)) await removeGitFolders(host);
  }
}

/**
 * Sets modes that do not depend on this process's umask, and the commit's time: equal commits give equal
 * trees.
 */
function settle(host: string, time: number): void {
  const { mode } = lstat(host);
  const type = mode & S_IFMT;
  if (type === S_IFDIR) { for (const name of readNames(host)) settle(`${host}/${name}`, time); }
  if (type !== S_IFLNK) chmod(host, type === S_IFDIR || (mode & 0o100) !== 0 ? 0o755 : 0o644);
  setTimes(host, time);
}

export function gitTree(source: GitSource, options: GitTreeOptions = {}): TreeSource {
  return new GitTree(source, options);
}
