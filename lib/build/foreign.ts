/**
 * Finds out whether this machine runs programs of another architecture, by running one: binfmt_misc may work
 * where this process cannot read its mount, as in a container.
 */
interface Machine {
  /** Machine number in ELF headers. */
  machine: number;
  bits: 32 | 64;
  bigEndian?: boolean;
  /** Flags that the architecture's ABI sets in the ELF header. */
  flags?: number;
  /** Instructions that end the program with exit code 0, in hexadecimal. */
  exit: string;
}

/** By architecture: the fields of ELF headers, and instructions that exit. */
const MACHINES: Readonly<Record<string, Machine>> = {
  // mov $1, %eax; xor %ebx, %ebx; int $0x80
  "386": { machine: 3, bits: 32, exit: "b80100000031dbcd80" },
  // mov $60, %eax; xor %edi, %edi; syscall
  amd64: { machine: 62, bits: 64, exit: "b83c00000031ff0f05" },
  // mov r7, #1; mov r0, #0; svc 0
  arm: { machine: 40, bits: 32, flags: 0x05000000, exit: "0170a0e30000a0e3000000ef" },
  // mov x8, #93; mov x0, #0; svc 0
  arm64: { machine: 183, bits: 64, exit: "a80b8052000080d2010000d4" },
  // li.w a7, 93; li.w a0, 0; syscall 0
  loong64: { machine: 258, bits: 64, flags: 0x43, exit: "0b7481020400800200002b00" },
  // li v0, 5058; li a0, 0; syscall
  mips64le: { machine: 8, bits: 64, flags: 0x80000000, exit: "c2130224000004240c000000" },
  // li r0, 1; li r3, 0; sc
  ppc64le: { machine: 21, bits: 64, flags: 2, exit: "010000380000603802000044" },
  // li a7, 93; li a0, 0; ecall
  riscv64: { machine: 243, bits: 64, exit: "9308d0051305000073000000" },
  // lghi %r2, 0; svc 1
  s390x: { machine: 22, bits: 64, bigEndian: true, exit: "a72900000a01" },
};

const fromHex = (text: string) =>
  Uint8Array.from(text.match(/[0-9a-f]{2}/g) ?? [], (pair) => parseInt(pair, 16));

/** Address at which the file is loaded. */
const BASE = 0x400000;

/**
 * An ELF program of these instructions; its only segment is the whole file. `code` must be
 * position-independent.
 */
export function elfProgram(architecture: string, code?: Uint8Array): Uint8Array<ArrayBuffer> {
  const { machine, bits, bigEndian = false, flags = 0, exit } = MACHINES[architecture];
  const body = code ?? fromHex(exit);
  const wide = bits === 64;
  const [header, segment] = wide ? [64, 56] : [52, 32];
  const start = header + segment;
  const size = start + body.length;
  const file = new Uint8Array(size);
  const view = new DataView(file.buffer);
  let at = 0;
  const half = (value: number) => (view.setUint16(at, value, !bigEndian), at += 2);
  const word = (value: number) => (view.setUint32(at, value, !bigEndian), at += 4);
  const address = (value: number) =>
    wide ? (view.setBigUint64(at, BigInt(value), !bigEndian), at += 8) : word(value);
  file.set([0x7f, 0x45, 0x4c, 0x46, wide ? 2 : 1, bigEndian ? 2 : 1, 1]);
  at = 16;
  half(2); // an executable
  half(machine);
  word(1); // version
  address(BASE + start);
  address(header); // of the table of segments
  address(0); // no sections
  word(flags);
  [header, segment, 1, 0, 0, 0].forEach(half);
  word(1); // to be loaded
  if (wide) word(5); // readable, executable
  address(0);
  address(BASE);
  address(BASE);
  address(size);
  address(size);
  if (!wide) word(5);
  address(0x1000);
  file.set(body, start);
  return file;
}

/**
 * The shell writes the program. If this process wrote the file, a child that it forks meanwhile could still
 * hold it open for writing, and the kernel would refuse to run it. chroot, because steps run in a root of
 * their own too: the emulator must be found from there.
 */
const SCRIPT = 'cat >"$0/probe" && chmod 755 "$0/probe" && exec chroot "$0" /probe';

/** Runs a program of that architecture in `folder`, which must be empty, private and executable. */
export async function runsHere(architecture: string, folder: string): Promise<boolean> {
  if (!MACHINES[architecture]) return false;
  const child = new Deno.Command("sh", {
    args: ["-c", SCRIPT, folder],
    env: { PATH: `${Deno.env.get("PATH") ?? "/usr/bin:/bin"}:/usr/sbin:/sbin` },
    stdin: "piped",
    stdout: "null",
    stderr: "null",
  }).spawn();
  try {
    await new Blob([elfProgram(architecture)]).stream().pipeTo(child.stdin);
  } catch {
    // The program ended without reading: its exit code tells.
  }
  return (await child.status).success;
}
