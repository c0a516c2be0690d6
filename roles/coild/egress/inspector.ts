import { everyAbout, type KeyedMutex } from "../../../lib/async/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import type { AttachmentBook } from "../calls/attachment_book.ts";
import type { Attachment } from "../calls/attachment.ts";
import type { EgressReconciler } from "./reconciler.ts";
import type { EgressSetup } from "./setup.ts";
import { keyText } from "../../../lib/cni/mod.ts";

const log = getLogger("egress");

export interface EgressInspectorOptions {
  readonly setup: Pick<EgressSetup, "doubt" | "findDamage">;
  readonly book: AttachmentBook;
  readonly reconciler: Pick<EgressReconciler, "enqueue">;
  readonly locks: KeyedMutex;
  readonly intervalMs: number;
}

/**
 * Looks at the clients of this node from time to time: coild gets no notice when a
 * program in a pod changes its network. What is found goes to the reconciler,
 * and so does, once, each pod that its ADD did not make a client.
 */
export class EgressInspector {
  readonly #with: EgressInspectorOptions;

  constructor(options: EgressInspectorOptions) {
    this.#with = options;
  }

  /** Looks about once in each interval until the signal. One pod after the other, so that an ADD waits for none but its own. */
  async run(signal: AbortSignal): Promise<void> {
    await everyAbout(this.#with.intervalMs, async () => {
      for (const attachment of this.#with.book.list()) {
        await this.#inspect(attachment, signal);
      }
    }, { signal });
  }

  async #inspect(attachment: Attachment, signal: AbortSignal): Promise<void> {
    const { book, locks, reconciler, setup } = this.#with;
    const key = keyText(attachment.key);
    // The holder of the lock changes it.
    if (locks.isLocked(key)) return;
    // GC waits for it: a stale attachment that it passed over would stay.
    using _lock = await locks.lock(key, { upkeep: true, signal });
    if (book.at(attachment.key) !== attachment) return;
    if (setup.doubt(attachment)) return reconciler.enqueue(attachment.pod);
    try {
      const problems = await setup.findDamage(attachment);
      if (problems.length === 0) return;
      log.warn("Repairing a pod's egress", { ...attachment.pod, problems });
      reconciler.enqueue(attachment.pod);
    } catch (err) {
      log.warn("Cannot check a pod's egress", { ...attachment.pod, err });
    }
  }
}
