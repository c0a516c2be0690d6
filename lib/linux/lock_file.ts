import { ERRNO, LinuxError } from "./errno.ts";
import {
  closeFile,
  lastErrno,
  libc,
  O_CREAT,
  O_RDONLY,
  O_RDWR,
  openFile,
} from "./libc.ts";

/** Operations of flock(2). */
const LOCK_EX = 2;
const LOCK_NB = 4;
const LOCK_UN = 8;

/** The main thread's: other threads never change theirs for longer than one call. */
const OWN_NETNS = "/proc/self/ns/net";

/**
 * Takes an exclusive lock on a file, made with mode 0600 when missing.
 * Returns undefined when another process (or another call) holds it. The
 * kernel drops the lock when the process ends, however it ends; the file stays.
 *
 * @throws {LinuxError} when the file cannot be opened or locked
 */
export function tryLockFile(path: string): Disposable | undefined {
  const action = `lock file "${path}"`;
  const fd = openFile(path, { flags: O_RDWR | O_CREAT, mode: 0o600, action });
  return tryLock(fd, action);
}

/**
 * The same for the network namespace of this process: one process at a time has
 * it, also among containers. flock(2) locks any open file, the
 * inode of a namespace (namespaces(7)) included. Only who asks for this lock is
 * kept out; the namespace can be used as before.
 *
 * @throws {LinuxError} when it cannot be opened or locked
 */
export function tryLockOwnNetns(): Disposable | undefined {
  const action = "lock the network namespace";
  return tryLock(openFile(OWN_NETNS, { flags: O_RDONLY, action }), action);
}

/**
 * The process that has {@linkcode tryLockOwnNetns}'s lock, by /proc/locks
 * (proc_locks(5)); undefined for one of a PID namespace that is not seen from here.
 */
export function holderOfOwnNetns(): number | undefined {
  const { ino } = Deno.statSync(OWN_NETNS);
  const held = new RegExp(`FLOCK .* (\\d+) [0-9a-f:]+:${ino} `);
  const pid = held.exec(Deno.readTextFileSync("/proc/locks"))?.[1];
  return pid === undefined ? undefined : Number(pid);
}

function tryLock(fd: number, action: string): Disposable | undefined {
  if (libc().symbols.flock(fd, LOCK_EX | LOCK_NB) < 0) {
    const errno = lastErrno();
    closeFile(fd);
    if (errno === ERRNO.EAGAIN) return undefined;
    throw new LinuxError(action, { syscall: "flock", errno });
  }
  return new HeldLock(fd);
}

class HeldLock implements Disposable {
  #fd: number;

  constructor(fd: number) {
    this.#fd = fd;
  }

  [Symbol.dispose](): void {
    if (this.#fd < 0) return;
    // Not by closing alone: a child that is being started has a copy until its exec.
    libc().symbols.flock(this.#fd, LOCK_UN);
    closeFile(this.#fd);
    this.#fd = -1;
  }
}
