import { LinuxError } from "./errno.ts";

/**
 * The C functions in use. Three rules of Deno's FFI shape this list:
 * - a call with `nonblocking: true` runs on another thread, whose errno cannot
 *   be read from here: of such a call only the result counts;
 * - lengths come back as `i32`, not `isize`, so that they are numbers rather
 *   than bigints (nothing here moves 2 GiB at once);
 * - open(2) and ioctl(2) are variadic in C. The ABIs of x86-64 and arm64 Linux
 *   pass integer arguments of variadic functions as those of others.
 */
const SYMBOLS = {
  __errno_location: { parameters: [], result: "pointer" },
  open: { parameters: ["buffer", "i32", "u32"], result: "i32" },
  close: { parameters: ["i32"], result: "i32" },
  statx: {
    parameters: ["i32", "buffer", "i32", "u32", "buffer"],
    result: "i32",
  },
  fstatfs: { parameters: ["i32", "buffer"], result: "i32" },
  ioctl: { parameters: ["i32", "usize", "usize"], result: "i32" },
  setns: { parameters: ["i32", "i32"], result: "i32" },
  abort: { parameters: [], result: "void" },
  flock: { parameters: ["i32", "i32"], result: "i32" },
  madvise: { parameters: ["usize", "usize", "i32"], result: "i32" },
  malloc_trim: { parameters: ["usize"], result: "i32" },
  socket: { parameters: ["i32", "i32", "i32"], result: "i32" },
  setsockopt: {
    parameters: ["i32", "i32", "i32", "buffer", "u32"],
    result: "i32",
  },
  getsockopt: {
    parameters: ["i32", "i32", "i32", "buffer", "buffer"],
    result: "i32",
  },
  connect: { parameters: ["i32", "buffer", "u32"], result: "i32" },
  bind: { parameters: ["i32", "buffer", "u32"], result: "i32" },
  getsockname: { parameters: ["i32", "buffer", "buffer"], result: "i32" },
  send: { parameters: ["i32", "buffer", "usize", "i32"], result: "i32" },
  recv: { parameters: ["i32", "buffer", "usize", "i32"], result: "i32" },
  sendOffThread: {
    name: "send",
    parameters: ["i32", "buffer", "usize", "i32"],
    result: "i32",
    nonblocking: true,
  },
  recvOffThread: {
    name: "recv",
    parameters: ["i32", "buffer", "usize", "i32"],
    result: "i32",
    nonblocking: true,
  },
  closeOffThread: {
    name: "close",
    parameters: ["i32"],
    result: "i32",
    nonblocking: true,
  },
  pollOffThread: {
    name: "poll",
    parameters: ["buffer", "usize", "i32"],
    result: "i32",
    nonblocking: true,
  },
} as const satisfies Deno.ForeignLibraryInterface;

/** Bytes that the kernel or another thread may write while JavaScript goes on. */
export type Bytes = Uint8Array<ArrayBuffer>;

/** The functions as JavaScript sees them. */
interface LibcFunctions {
  __errno_location(): Deno.PointerValue;
  open(path: Bytes, flags: number, mode: number): number;
  close(fd: number): number;
  statx(
    directory: number,
    path: Bytes,
    flags: number,
    mask: number,
    result: Bytes,
  ): number;
  fstatfs(fd: number, result: Bytes): number;
  ioctl(fd: number, request: bigint, argument: bigint): number;
  setns(fd: number, kind: number): number;
  abort(): void;
  flock(fd: number, operation: number): number;
  madvise(address: bigint, length: bigint, advice: number): number;
  malloc_trim(pad: bigint): number;
  socket(family: number, kind: number, protocol: number): number;
  setsockopt(
    fd: number,
    level: number,
    option: number,
    value: Bytes,
    length: number,
  ): number;
  getsockopt(
    fd: number,
    level: number,
    option: number,
    value: Bytes,
    length: Bytes,
  ): number;
  connect(fd: number, address: Bytes, length: number): number;
  bind(fd: number, address: Bytes, length: number): number;
  getsockname(fd: number, address: Bytes, length: Bytes): number;
  send(fd: number, bytes: Bytes, length: bigint, flags: number): number;
  recv(fd: number, bytes: Bytes, length: bigint, flags: number): number;
  sendOffThread(
    fd: number,
    bytes: Bytes,
    length: bigint,
    flags: number,
  ): Promise<number>;
  recvOffThread(
    fd: number,
    bytes: Bytes,
    length: bigint,
    flags: number,
  ): Promise<number>;
  closeOffThread(fd: number): Promise<number>;
  pollOffThread(fds: Bytes, count: bigint, timeoutMs: number): Promise<number>;
}

/** The opened library with the place of the calling thread's errno. */
interface Libc {
  readonly symbols: LibcFunctions;
  readonly errno: Deno.UnsafePointerView;
}

let opened: Libc | undefined;

/** The C library, opened at the first call and never closed. */
export function libc(): Libc {
  return opened ??= load();
}

/**
 * Loads the C library now rather than at first use: a daemon fails at its
 * start, with a clear message, where there is no glibc.
 *
 * @throws {TypeError} when the library or one of its functions is missing
 */
export function openLibc(): void {
  libc();
}

function load(): Libc {
  if (Deno.build.os !== "linux") {
    throw new TypeError(
      `Cannot load the C library: this is ${Deno.build.os}, not Linux`,
    );
  }
  let symbols: LibcFunctions;
  try {
    symbols = Deno.dlopen("libc.so.6", SYMBOLS).symbols;
  } catch (cause) {
    throw new TypeError('Cannot load "libc.so.6" (glibc 2.28 or newer)', {
      cause,
    });
  }
  // The address of a thread's errno never changes, so it is asked for once:
  // reading it later needs no call in between that could overwrite it.
  const location = symbols.__errno_location();
  if (location === null) throw new TypeError("Cannot find errno: null pointer");
  return { symbols, errno: new Deno.UnsafePointerView(location) };
}

/** The error number of the last synchronous call. Meaningless after an off-thread one. */
export function lastErrno(): number {
  return libc().errno.getInt32();
}

/** The error of the last synchronous call. */
export function lastError(action: string, syscall: string): LinuxError {
  return new LinuxError(action, { syscall, errno: lastErrno() });
}

const encoder = new TextEncoder();

/** A C string. @throws {TypeError} when the text itself holds a NUL */
export function cString(text: string): Bytes {
  if (text.includes("\0")) {
    throw new TypeError(
      `Cannot pass ${JSON.stringify(text)} to the kernel: it holds a NUL`,
    );
  }
  return encoder.encode(`${text}\0`);
}

/** O_CLOEXEC of `<asm-generic/fcntl.h>`. */
const O_CLOEXEC = 0o2000000;
export const O_RDONLY = 0;
export const O_RDWR = 2;
/** O_CREAT of `<asm-generic/fcntl.h>`. */
export const O_CREAT = 0o100;

/** O_NONBLOCK of `<asm-generic/fcntl.h>`. */
const O_NONBLOCK = 0o4000;

/**
 * Opens a file close-on-exec, and without waiting: a FIFO in the place of the
 * file would hold the event loop for ever. `action` completes "Cannot …" in the error.
 */
export function openFile(
  path: string,
  options: { flags: number; mode?: number; action: string },
): number {
  const fd = libc().symbols.open(
    cString(path),
    options.flags | O_CLOEXEC | O_NONBLOCK,
    options.mode ?? 0,
  );
  if (fd < 0) throw lastError(options.action, "open");
  return fd;
}

/** Closes a file descriptor. Failing is not reported: Linux frees the number in any case (close(2)). */
export function closeFile(fd: number): void {
  libc().symbols.close(fd);
}

/** Identity of an open file: device and inode. */
export interface FileIdentity {
  readonly device: bigint;
  readonly inode: bigint;
}

/** AT_EMPTY_PATH of `<linux/fcntl.h>`: the descriptor itself is meant. */
const AT_EMPTY_PATH = 0x1000;
/** STATX_INO of `<linux/stat.h>`. */
const STATX_INO = 0x100;
/** struct statx of `<linux/stat.h>`, whose layout is the same on every architecture. */
const STATX = { size: 256, inode: 0x20, deviceMajor: 0x88, deviceMinor: 0x8c };

/** Device and inode of an open file. */
export function identify(fd: number, action: string): FileIdentity {
  const stat = new DataView(new ArrayBuffer(STATX.size));
  const bytes = new Uint8Array(stat.buffer);
  const result = libc().symbols.statx(
    fd,
    cString(""),
    AT_EMPTY_PATH,
    STATX_INO,
    bytes,
  );
  if (result < 0) throw lastError(action, "statx");
  const major = stat.getUint32(STATX.deviceMajor, true);
  const minor = stat.getUint32(STATX.deviceMinor, true);
  return {
    device: BigInt(major) << 32n | BigInt(minor),
    inode: stat.getBigUint64(STATX.inode, true),
  };
}
