import { holderOfOwnNetns, tryLockOwnNetns } from "../../../lib/linux/mod.ts";

/** Another coild serves this node. */
export class NodeTakenError extends Error {
  override readonly name = "NodeTakenError";

  constructor(holder: number | undefined) {
    const who = holder === undefined
      ? "a coild of another container"
      : `process ${holder}`;
    super(
      `Cannot serve this node: ${who} already does, at another --socket; stop it first`,
    );
  }
}

/**
 * Makes sure that one coild at a time changes the network of a node, also where they
 * have different sockets: both would make, and take from each other, the same rules
 * and routes, and give the same addresses. A node is a network namespace. The
 * kernel drops the lock with the process, so a killed daemon leaves nothing.
 *
 * @throws {NodeTakenError} naming the other one.
 */
export function lockNode(): Disposable {
  const lock = tryLockOwnNetns();
  if (lock === undefined) throw new NodeTakenError(holderOfOwnNetns());
  return lock;
}
