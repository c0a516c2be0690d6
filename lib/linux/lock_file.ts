import { ERRNO, LinuxError } from "./errno.ts";
import {
  closeFile,
  lastErrno,
  libc,
  O_CREAT,
  O_RDWR,
  openFile,
} from "./libc.ts";

/** Operations of flock(2). */
const LOCK_EX = 2;
const LOCK_NB = 4;
const LOCK_UN = 8;

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
