import {
  closeFile,
  type FileIdentity,
  identify,
  lastError,
  libc,
  O_RDONLY,
  openFile,
} from "./libc.ts";
import { SOL_SOCKET } from "./socket_numbers.ts";

/** CLONE_NEWNET of `<linux/sched.h>`. */
const CLONE_NEWNET = 0x40000000;
/** NSFS_MAGIC of `<linux/magic.h>`: the file system that namespaces live in. */
const NSFS_MAGIC = 0x6e736673n;
/** NS_GET_NSTYPE of `<linux/nsfs.h>`, `_IO(0xb7, 3)`: the CLONE_NEW… flag of a namespace. */
const NS_GET_NSTYPE = 0xb703n;
/** AF_UNIX of `<linux/socket.h>`, SOCK_DGRAM | SOCK_CLOEXEC of socket(2). */
const AF_UNIX = 1;
const SOCK_DGRAM_CLOEXEC = 2 | 0o2000000;
/** SO_NETNS_COOKIE of `<asm-generic/socket.h>`. */
const SO_NETNS_COOKIE = 71;
const COOKIE_SIZE = 8;
/** The calling thread's own network namespace (proc(5)). */
const OWN_NETNS = "/proc/thread-self/ns/net";

/**
 * A path that does not name a network namespace: an ordinary file (what is
 * left of a namespace file after its unmount), or another kind of namespace.
 */
export class NotANetnsError extends TypeError {
  /** The name of the class. */
  override readonly name: string = "NotANetnsError";
  /** The path as given. */
  readonly path: string;

  /** `reason` says what the path is instead. */
  constructor(path: string, reason: string) {
    super(`Cannot open network namespace "${path}": ${reason}`);
    this.path = path;
  }
}

/** An open network namespace: it stays alive until disposed, even when its file goes. */
export class Netns implements Disposable {
  readonly #identity: FileIdentity;
  #fd: number;
  /** Where it was opened, for messages. */
  readonly path: string;

  private constructor(path: string, fd: number, identity: FileIdentity) {
    this.path = path;
    this.#fd = fd;
    this.#identity = identity;
  }

  /**
   * Opens a namespace by its file.
   *
   * @throws {LinuxError} when the file cannot be opened; `code` is `ENOENT` when it is missing
   * @throws {NotANetnsError} when the file is something else
   */
  static open(path: string): Netns {
    const action = `open network namespace "${path}"`;
    const fd = openFile(path, { flags: O_RDONLY, action });
    try {
      checkKind(fd, path);
      return new Netns(path, fd, identify(fd, action));
    } catch (error) {
      closeFile(fd);
      throw error;
    }
  }

  /** Opens the namespace that the calling thread is in. */
  static current(): Netns {
    return Netns.open(OWN_NETNS);
  }

  /** The file descriptor. @throws {TypeError} when already disposed */
  get fd(): number {
    if (this.#fd < 0) {
      throw new TypeError(
        `Cannot use network namespace "${this.path}": closed`,
      );
    }
    return this.#fd;
  }

  /** The inode number, as `readlink /proc/self/ns/net` shows it. */
  get inode(): bigint {
    return this.#identity.inode;
  }

  /** A number that no other namespace of this machine has had since its start, unlike the inode's; undefined before Linux 5.14. */
  get cookie(): bigint | undefined {
    return inNetns(this, readCookie);
  }

  /** Whether both are the same namespace, also by different paths (device and inode agree). */
  sameAs(other: Netns): boolean {
    return this.#identity.inode === other.#identity.inode &&
      this.#identity.device === other.#identity.device;
  }

  /** Whether this is the namespace that the process itself runs in. */
  get isOwn(): boolean {
    return this.sameAs(ownNetns());
  }

  /** Closes the file descriptor; harmless when done twice. */
  [Symbol.dispose](): void {
    if (this.#fd < 0) return;
    const fd = this.#fd;
    this.#fd = -1;
    closeFile(fd);
  }
}

/** By a socket, which knows the namespace that it was made in. */
function readCookie(): bigint | undefined {
  const { symbols } = libc();
  const fd = symbols.socket(AF_UNIX, SOCK_DGRAM_CLOEXEC, 0);
  if (fd < 0) throw lastError("identify a network namespace", "socket");
  const cookie = new BigUint64Array(1);
  const length = new Uint8Array(new Uint32Array([COOKIE_SIZE]).buffer);
  const value = new Uint8Array(cookie.buffer);
  // ENOPROTOOPT of an older kernel is all that can be wrong.
  const isKnown = symbols.getsockopt(
    ...[fd, SOL_SOCKET, SO_NETNS_COOKIE, value, length] as const,
  ) === 0;
  closeFile(fd);
  return isKnown ? cookie[0] : undefined;
}

/** Room for struct statfs, 120 bytes on 64-bit Linux; `f_type` comes first. */
const STATFS_SIZE = 256;

function checkKind(fd: number, path: string): void {
  const statfs = new DataView(new ArrayBuffer(STATFS_SIZE));
  const { symbols } = libc();
  if (symbols.fstatfs(fd, new Uint8Array(statfs.buffer)) < 0) {
    throw lastError(`open network namespace "${path}"`, "fstatfs");
  }
  if (statfs.getBigUint64(0, true) !== NSFS_MAGIC) {
    throw new NotANetnsError(path, "it is not a namespace file");
  }
  const kind = symbols.ioctl(fd, NS_GET_NSTYPE, 0n);
  if (kind < 0) throw lastError(`open network namespace "${path}"`, "ioctl");
  if (kind !== CLONE_NEWNET) {
    throw new NotANetnsError(path, "it is another kind of namespace");
  }
}

// The namespace this thread belongs in, and the one it is in while a function
// runs inside another. Both change only within inNetns(), which is synchronous.
let own: Netns | undefined;
let inside: Netns | undefined;

function ownNetns(): Netns {
  return own ??= Netns.current();
}

/**
 * Runs a function with the calling thread inside a network namespace and
 * comes back, also when it throws. Sockets that the function opens stay in that
 * namespace for good and may be used from anywhere.
 *
 * The function has to be synchronous: while it runs nothing else does, so
 * nothing else can see the thread in the wrong place. Deno's synchronous file
 * operations run on the calling thread and thus see the namespace's own
 * `/proc/sys/net`; asynchronous ones do not. Calls may be nested.
 *
 * When the way back fails, the process is ended on the spot: going on would
 * make the host's network of the pod's.
 *
 * @throws {LinuxError} when the namespace cannot be entered
 * @throws {TypeError} when the function returns a promise
 */
export function inNetns<T>(netns: Netns, fn: () => T): T {
  ownNetns(); // opened before the thread is anywhere else
  const before = inside;
  const { symbols } = libc();
  if (symbols.setns(netns.fd, CLONE_NEWNET) < 0) {
    throw lastError(`enter network namespace "${netns.path}"`, "setns");
  }
  inside = netns;
  let result: T;
  try {
    result = fn();
  } finally {
    returnTo(before);
  }
  if (result instanceof Promise) {
    throw new TypeError(
      `Cannot run an asynchronous function in network namespace "${netns.path}"`,
    );
  }
  return result;
}

/** As {@linkcode inNetns}; without a namespace, where the thread is. */
export function inNetnsOrHere<T>(netns: Netns | undefined, fn: () => T): T {
  return netns === undefined ? fn() : inNetns(netns, fn);
}

function returnTo(before: Netns | undefined): void {
  try {
    if (libc().symbols.setns((before ?? ownNetns()).fd, CLONE_NEWNET) < 0) {
      throw lastError("return to the former network namespace", "setns");
    }
    inside = before;
  } catch (error) {
    // deno-lint-ignore no-console -- last words of a process that must not go on
    console.error("fatal:", error);
    libc().symbols.abort(); // no unload handler may run in the wrong place
  }
}
