/** Rows of process lists, as `ps -ef` has them, from what the kernel tells in /proc. */

export const TITLES = ["UID", "PID", "PPID", "STIME", "TTY", "TIME", "CMD"];

/** Most bytes of a command line that are shown. */
export const LONGEST_COMMAND = 4096;
/** Clock ticks of a second (USER_HZ), the same on all architectures that svc runs on. */
const TICKS = 100;

/** The files of a process below /proc. */
export interface ProcessFiles {
  stat: string;
  status: string;
  /** Empty: it has no command line. Undefined: it cannot be read. */
  cmdline?: Uint8Array;
}

/** As tty_nr of proc(5) has it. */
function terminal(device: number): string {
  const major = device >> 8 & 0xfff;
  const minor = device & 0xff | device >> 12 & 0xfff00;
  if (device === 0) return "?";
  return major >= 136 && major <= 143 ? `pts/${(major - 136) * 256 + minor}` : `${major}:${minor}`;
}

function clock(seconds: number): string {
  const two = (value: number) => String(Math.floor(value)).padStart(2, "0");
  return `${two(seconds / 3600)}:${two(seconds / 60 % 60)}:${two(seconds % 60)}`;
}

/** Seconds since 1970 of the boot, by /proc/stat. */
export const bootTimeOf = (stat = ""): number => Number(/^btime (\d+)$/m.exec(stat)?.[1] ?? 0);

/** The name of a process: of its program, unless it has given itself another. */
export const nameOf = ({ stat }: Pick<ProcessFiles, "stat">): string =>
  // The name, in parentheses, may contain anything.
  stat.slice(stat.indexOf("(") + 1, stat.lastIndexOf(")"));

export function processRow(pid: number, files: ProcessFiles, boot: number): string[] {
  const { stat, status, cmdline = new Uint8Array() } = files;
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const [uid = "?"] = /^Uid:\s+(\d+)/m.exec(status)?.slice(1) ?? [];
  const started = new Date((boot + Number(fields[19]) / TICKS) * 1000);
  const command = new TextDecoder().decode(cmdline.subarray(0, LONGEST_COMMAND))
    .replaceAll("\0", " ").trimEnd();
  return [
    uid,
    String(pid),
    fields[1],
    started.toISOString().slice(0, 16),
    terminal(Number(fields[4])),
    clock((Number(fields[11]) + Number(fields[12])) / TICKS),
    command || `[${nameOf(files)}]`,
  ];
}
