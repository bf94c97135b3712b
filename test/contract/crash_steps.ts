/** Ends this process without notice before one of the steps by which it changes the host. */

/** What changes files, of what the backends use; a file that is only read is no step. */
const CHANGES = ["mkdir", "remove", "rename", "symlink", "writeFile", "writeTextFile"] as const;

type Call = (...args: unknown[]) => unknown;

/** From now on the n-th step is not done. Steps are changes of files, and starts of programs. */
export function endBefore(step: number): void {
  let left = step;
  const count = () => {
    if (--left === 0) Deno.kill(Deno.pid, "SIGKILL");
  };
  const before = (call: Call, isStep: Call = () => true): Call => (...args) => {
    if (isStep(...args)) count();
    return call(...args);
  };
  const calls = Deno as unknown as Record<string, Call>;
  const writes: Call = (_path, options) =>
    (options as Deno.OpenOptions | undefined)?.write === true;
  for (const name of CHANGES) calls[name] = before(calls[name]);
  for (const name of ["open", "openSync"]) calls[name] = before(calls[name], writes);
  const { spawn } = Deno.Command.prototype;
  Deno.Command.prototype.spawn = function () {
    count();
    return spawn.call(this);
  };
}
