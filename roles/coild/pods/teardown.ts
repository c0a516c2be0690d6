import { Backoff, retry, TaskGroup } from "../../../lib/async/mod.ts";
import type { NodeIpam, Releasing } from "../../../lib/ipam/mod.ts";
import type { CutOff, PodNetwork } from "../../../lib/podnet/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import type { FormerHolders } from "../observe/former_holders.ts";
import type { RestStore } from "../blocks/supply.ts";
import type { AttachmentKey } from "../../../lib/cni/mod.ts";
import type { NamespacedName } from "../../../lib/names/mod.ts";

const log = getLogger("pod-network");

export interface TeardownOptions {
  readonly ipam: NodeIpam;
  readonly network: PodNetwork;
  /** Keeps over a restart which addresses rest. */
  readonly rests?: Pick<RestStore, "begin"> | undefined;
  /** Remembers who had the addresses. */
  readonly former?: Pick<FormerHolders, "note"> | undefined;
}

/** An attachment as it was when kernel and addresses were listed. */
export interface ListedAttachment extends AttachmentKey {
  /** Index of its link; undefined: it had none. */
  readonly index: number | undefined;
  /** Number of the period of use of its addresses; undefined: it had none. */
  readonly generation: number | undefined;
}

interface Remainder {
  readonly held: DisposableStack;
  readonly cutOff: CutOff | undefined;
  readonly releasing: Releasing | undefined;
  /** Whether the key has no other link. Default: it has none. */
  readonly isLast?: boolean;
  /** Whose addresses they were, if that is known. */
  readonly pod?: NamespacedName | undefined;
  /** Whether no pod has used the addresses. Default: one has. */
  readonly isUndo?: boolean | undefined;
}

/**
 * Takes pods off the network in two steps: cut off at once, then, behind the
 * caller's back, what the kernel does slowly.
 *
 * The pod's address is free only after the second step, and the pod's lock is
 * held till then, so a new ADD of the same key waits.
 */
export class Teardown implements AsyncDisposable {
  readonly #with: TeardownOptions;
  readonly #background = new TaskGroup();

  constructor(options: TeardownOptions) {
    this.#with = options;
  }

  /** How many attachments are cut off and not gone yet. */
  get pending(): number {
    return this.#background.running.length;
  }

  /**
   * Cuts an attachment off; what remains goes on in the background. `held`,
   * with the lock of the key in it, is disposed of when all is done.
   *
   * @throws {NetlinkError} when the attachment could not be cut off; it is
   * left as it was, and `held` to the caller.
   */
  async start(
    key: AttachmentKey,
    held: DisposableStack,
    { pod }: Pick<Remainder, "pod"> = {},
  ): Promise<void> {
    await this.#start(key, { held, pod, isUndo: false });
  }

  async #start(
    key: AttachmentKey,
    { held, pod, isUndo }: Pick<Remainder, "held" | "pod" | "isUndo">,
  ): Promise<void> {
    const { ipam, network, rests } = this.#with;
    const releasing = ipam.beginRelease(key);
    let cutOff: CutOff | undefined;
    try {
      if (releasing !== undefined) await rests?.begin(releasing.addresses);
      cutOff = await network.beginTeardown(key, pod && { pod });
    } catch (error) {
      if (releasing !== undefined) ipam.cancelRelease(releasing);
      throw error;
    }
    if (cutOff === undefined && releasing === undefined) return;
    this.#finishLater(key, { held, cutOff, releasing, pod, isUndo });
  }

  /**
   * Takes down just the attachment that was listed. In the time since, the
   * runtime may have deleted it and added another one of the same key: a link
   * of another index, or addresses of another period of use, are left alone.
   * Returns whether there was anything left of what was listed.
   *
   * @throws {NetlinkError} as {@linkcode Teardown.start}
   */
  async startListed(
    listed: ListedAttachment,
    held: DisposableStack,
  ): Promise<boolean> {
    const { ipam, network, rests } = this.#with;
    const before = ipam.lookup(listed);
    if (before?.generation === listed.generation && before !== undefined) {
      await rests?.begin(before.addresses);
    }
    const { isLast, teardown } = await network.beginTeardownOf(listed);
    const known = isLast ? ipam.lookup(listed) : undefined;
    // Without another link, what has the addresses was the link just cut off.
    const isOver = known !== undefined &&
      (teardown !== undefined || known.generation === listed.generation);
    const releasing = isOver ? ipam.beginRelease(listed) : undefined;
    if (teardown === undefined && releasing === undefined) return false;
    this.#finishLater(listed, { held, cutOff: teardown, releasing, isLast });
    return true;
  }

  #finishLater(
    key: AttachmentKey,
    { held, cutOff, releasing, isLast = true, pod, isUndo = false }: Remainder,
  ): void {
    const { ipam, former } = this.#with;
    const locked = held.move();
    this.#background.run(`teardown of ${key.containerId}`, async (signal) => {
      using _locked = locked;
      if (cutOff !== undefined) await this.#finish(key, cutOff, signal);
      if (!isLast) return;
      // The addresses may have been recovered after the DEL had begun.
      const known = releasing ?? ipam.beginRelease(key);
      if (known === undefined) return;
      ipam.finishRelease(known);
      if (!isUndo) former?.note(known, pod);
    });
  }

  /**
   * Takes back what a failed ADD had done. It never fails: the caller has an
   * error to report already, and what remains is found by the reconciler.
   */
  async undo(
    key: AttachmentKey,
    held: DisposableStack,
    { pod }: Pick<Remainder, "pod">,
  ): Promise<void> {
    try {
      await this.#start(key, { held, pod, isUndo: true });
    } catch (error) {
      log.error(
        "Cannot undo a failed ADD; DEL or the next comparison retries",
        { err: error },
      );
    }
  }

  /** Waits for what goes on; what the kernel refuses is left to the next start of the daemon. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#background[Symbol.asyncDispose]();
  }

  async #finish(
    key: AttachmentKey,
    cutOff: CutOff,
    signal: AbortSignal,
  ): Promise<void> {
    await retry(() => this.#with.network.finishTeardown(cutOff), {
      signal,
      backoff: new Backoff({ initialMs: 50, maxMs: 5_000 }),
      shouldRetry: (error) => {
        log.warn("Cannot delete a host veth yet", {
          containerId: key.containerId,
          iface: key.ifname,
          err: error,
        });
        return true;
      },
    });
  }
}
