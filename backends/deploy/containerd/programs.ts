/**
 * The two small programs that containerd's shim runs for svc's containers, whether a server runs or not: one
 * writes what a container prints to its log, the other stands before the OCI runtime.
 */
import { join } from "node:path";
import { writeFileAtomic } from "../../../lib/base/fs.ts";
import { SvcError } from "../../../lib/base/errors.ts";
import { requireProgram } from "../../../lib/deploy/host/prerequisites.ts";
import { FIFO } from "../../../lib/deploy/host/input.ts";

/** Number of the system call clock_gettime: the Perl that every Debian has lacks a module for it. */
const CLOCK_GETTIME = Deno.build.arch === "x86_64" ? 228 : 113;

/** Before the log's name where containerd's restart monitor starts the logger. */
const MONITOR = "monitor";

/** Endings of the logger's own files beside a log. */
export const LOG_MARKS = [".open", ".monitor"];

/**
 * Reads a container's output (file descriptors 3 and 4) to its end and writes it to the log that its argument
 * names, in the format of lib/deploy/host/log_file.ts. At `limit` bytes the log becomes the older one. Output
 * that cannot be written is dropped: a full disk must not hold the container up.
 */
const loggerText = (limit: number) =>
  `# Made by svc: writes a container's output to its log.
use strict;
use POSIX ();
my $log = shift;
my $limit = ${limit};
$SIG{$_} = 'IGNORE' for qw(TERM INT HUP PIPE);
umask 077;
my ($file, $size, $cut);
sub begin {
  $file = undef;
  open($file, '>>', $log) or $file = undef;
  $size = $file ? -s $file : 0;
}
sub now {
  my $time = "\\0" x 16;
  my ($seconds, $nanos) = (time, 0);
  ($seconds, $nanos) = unpack('qq', $time) if syscall(${CLOCK_GETTIME}, 0, $time) == 0;
  my ($s, $m, $h, $day, $month, $year) = gmtime $seconds;
  return sprintf '%04d-%02d-%02dT%02d:%02d:%02d.%09dZ', $year + 1900, $month + 1, $day, $h, $m, $s, $nanos;
}
sub put {
  my ($stream, $bytes) = @_;
  my $time = now();
  my $text = $cut ? "\\n" : '';
  while (length $bytes) {
    my $end = index $bytes, "\\n";
    my $whole = $end >= 0;
    my $line = substr $bytes, 0, $whole ? $end : length $bytes, '';
    substr($bytes, 0, 1) = '' if $whole;
    $text .= "$time $stream " . ($whole ? 'F' : 'P') . " $line\\n";
  }
  if ($file && $size && $size + length $text > $limit) {
    rename $log, "$log.1";
    begin();
  }
  begin() unless $file;
  return unless $file;
  for (my $at = 0; $at < length $text;) {
    my $put = syswrite $file, $text, length($text) - $at, $at;
    if (!defined $put) {
      $cut = $at > 0;
      return;
    }
    $at += $put;
    $size += $put;
  }
  $cut = 0;
}
sub take {
  my ($fd, $stream) = @_;
  my $got = POSIX::read($fd, my $bytes, 65536);
  return $!{EINTR} ? 1 : 0 if !defined $got;
  return 0 if $got == 0;
  put($stream, $bytes);
  return 1;
}
sub ready {
  my ($fds, $wait) = @_;
  my $set = '';
  vec($set, $_, 1) = 1 for @$fds;
  return select($set, undef, undef, $wait) > 0 ? grep { vec $set, $_, 1 } @$fds : ();
}
# The guard of the runtime asks who starts the container.
my $monitors = $log =~ s/^${MONITOR}://;
unlink "$log.monitor";
if ($monitors) { open my $mark, '>', "$log.monitor"; }
begin();
# While this file is there, the log is not complete.
if (open my $running, '>', "$log.open") { print $running $$; close $running; }
POSIX::close(5);
my @open = (3, 4);
while (grep { $_ == 3 } @open) {
  for my $fd (ready(\\@open, undef)) {
    @open = grep { $_ != $fd } @open unless take($fd, $fd == 3 ? 'stdout' : 'stderr');
  }
}
if (grep { $_ == 4 } @open) {
  while (ready([4], 0)) { last unless take(4, 'stderr'); }
}
unlink "$log.open";
`;

/** In a shell's single quotes. */
const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;

export interface GuardOptions {
  /** A folder per container. */
  instances: string;
  logs: string;
  /** Locked by the server as long as it lives. */
  serving: string;
  /** The OCI runtime and the program flock(1), with absolute paths. */
  runtime: string;
  flock: string;
}

/**
 * Stands before the OCI runtime. While a server lives, containerd's restart monitor starts nothing: the restart
 * policy, its delays and its counts are the server's then. And the container gets its input, which the shim
 * connects to no container whose output a program logs.
 */
const guardText = ({ instances, logs, serving, runtime, flock }: GuardOptions) =>
  `#!/bin/sh
# Made by svc: the OCI runtime of its containers.
case " $* " in
*" create "*)
  for word; do
    [ "$key" != --log ] || log=$word
    key=$word
  done
  bundle=${quoted(instances)}/$key
  if [ -e ${quoted(logs)}/$key.log.monitor ] && ! ${quoted(flock)} -n ${quoted(serving)} true; then
    printf '{"level":"error","msg":"svc runs, and starts %s itself"}\\n' "$key" >"\${log:-/dev/null}"
    exit 1
  fi
  if [ -p "$bundle/${FIFO}" ]; then
    exec 3<>"$bundle/${FIFO}" 0<"$bundle/${FIFO}" 3>&-
  fi
  ;;
esac
exec ${quoted(runtime)} "$@"
`;

/** The two programs, as files. */
export interface Programs {
  /** The runtime as the shim is told of it. */
  guard: string;
  /** What containerd is told to run for a container's output; the restart monitor is told another one. */
  logURI(log: string, options?: { monitor: boolean }): string;
}

/** Writes the programs below `folder`. Throws `prerequisite_missing`. */
export async function writePrograms(
  folder: string,
  { logLimit, ...guard }: Omit<GuardOptions, "flock"> & { logLimit: number },
): Promise<Programs> {
  const [perl, flock] = await Promise.all([
    requireProgram("perl", "perl-base"),
    requireProgram("flock", "util-linux"),
  ]);
  const logger = join(folder, "logger.pl");
  const path = join(folder, "runtime");
  await writeFileAtomic(logger, loggerText(logLimit), { mode: 0o600 });
  await writeFileAtomic(path, guardText({ ...guard, flock }), { mode: 0o700 });
  const { success } = await new Deno.Command(path, { args: ["--version"], stdout: "null" }).output()
    .catch((error) => {
      throw new SvcError("prerequisite_missing", `Cannot run programs of ${folder}`, {
        cause: error,
        help: "put the data directory on a file system that is mounted without noexec",
      });
    });
  if (!success) throw new SvcError("prerequisite_missing", `Cannot run ${guard.runtime} --version`);
  const logURI = (log: string, { monitor = false } = {}) => {
    const name = monitor ? `${MONITOR}:${log}` : log;
    return `binary://${perl}?${encodeURIComponent(logger)}=${encodeURIComponent(name)}`;
  };
  return { guard: path, logURI };
}
