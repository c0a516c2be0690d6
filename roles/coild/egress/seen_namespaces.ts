import { type AttachmentKey, keyText } from "../../../lib/cni/mod.ts";
import { LinuxError, Netns, NotANetnsError } from "../../../lib/linux/mod.ts";
import type { Attachment } from "../calls/attachment.ts";

/** Where a pod's network namespace was seen, and which one it was. */
interface Seen {
  readonly path: string;
  readonly cookie: bigint;
}

/**
 * The network namespaces of clients, found again by their cookies. To look for a
 * pod's interface takes more time than to choose another gateway in it, and a
 * lock of the kernel's that others hold for long, above all while a gateway's
 * pod goes.
 */
export class SeenNamespaces {
  readonly #seen = new Map<string, Seen>();

  /** Takes note of the namespace that a pod's interface is in. */
  note(key: AttachmentKey, { path, cookie }: Netns): void {
    if (cookie !== undefined) this.#seen.set(keyText(key), { path, cookie });
  }

  /** Opens the namespace of a pod: the one that was seen, else by its interface; undefined when there is none. */
  async open(attachment: Attachment): Promise<Netns | undefined> {
    const seen = this.#seen.get(keyText(attachment.key));
    const again = seen && reopen(seen);
    if (again !== undefined) return again;
    const netns = await attachment.openNetns();
    if (netns !== undefined) this.note(attachment.key, netns);
    return netns;
  }

  forget(key: AttachmentKey): void {
    this.#seen.delete(keyText(key));
  }
}

function reopen({ path, cookie }: Seen): Netns | undefined {
  using held = new DisposableStack();
  try {
    const netns = held.use(Netns.open(path));
    if (netns.cookie !== cookie) return undefined;
    held.move();
    return netns;
  } catch (error) {
    // Gone, as a rule.
    if (error instanceof LinuxError || error instanceof NotANetnsError) {
      return undefined;
    }
    throw error;
  }
}
