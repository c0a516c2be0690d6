import { holderOfOwnNetns, tryLockOwnNetns } from "../../../lib/linux/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";

const log = getLogger("setup");

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
 * Where a security policy forbids the lock, coild serves without it: pods need
 * their network more than this.
 *
 * @throws {NodeTakenError} naming the other one.
 */
export function lockNode(
  tryLock: typeof tryLockOwnNetns = tryLockOwnNetns,
): Disposable | undefined {
  let lock: Disposable | undefined;
  try {
    lock = tryLock();
  } catch (err) {
    log.warn(
      "Cannot lock the node's network namespace: a second coild with another --socket would not be noticed",
      { err },
    );
    return undefined;
  }
  if (lock === undefined) throw new NodeTakenError(holderOfOwnNetns());
  return lock;
}
