import { KeyedMutex, type WaitOptions } from "../../async/mod.ts";
import { type AttachmentKey, keyText } from "../../cni/mod.ts";
import { type NamespacedName, nameText } from "../../names/mod.ts";

/** Guards a key's link between looking at it and changing it: calls for one key follow each other. */
export class PodLocks {
  readonly #mutexes = new KeyedMutex();
  readonly #calico: boolean;

  /**
   * In Calico mode a link's name belongs to the pod, and until the link has its
   * alias it is unknown of which container it is. There, calls for two
   * containers of one pod follow each other too.
   */
  constructor(options: { readonly calico: boolean }) {
    this.#calico = options.calico;
  }

  /** Waits for the lock of a key, and of the pod where that is needed and known. */
  async lock(
    key: AttachmentKey,
    options: WaitOptions & { readonly pod?: NamespacedName | undefined },
  ): Promise<Disposable> {
    const { pod, ...waiting } = options;
    using held = new DisposableStack();
    // Always the pod first, so that two calls never wait for each other.
    if (this.#calico && pod !== undefined) {
      held.use(await this.#mutexes.lock(nameText(pod), waiting));
    }
    held.use(await this.#mutexes.lock(keyText(key), waiting));
    return held.move();
  }
}
