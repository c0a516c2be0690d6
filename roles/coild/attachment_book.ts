import type { PodKey } from "../../lib/podnet/mod.ts";
import type { Attachment } from "./attachments.ts";
import { keyText, podKey } from "./keys.ts";

/** Which attachment each pod of this node has, as far as this process knows. */
export class AttachmentBook {
  readonly #byPod = new Map<string, Attachment>();
  readonly #pods = new Map<string, string>();

  /** Notes a pod's attachment; of several, as of a sandbox that is made anew, the last one counts. */
  add(attachment: Attachment): void {
    const pod = podKey(attachment.pod);
    const old = this.#byPod.get(pod);
    if (old !== undefined) this.#pods.delete(keyText(old.key));
    this.#byPod.set(pod, attachment);
    this.#pods.set(keyText(attachment.key), pod);
  }

  /** The attachment of a pod; not that of an earlier pod of its name. */
  of(pod: string, uid: string | undefined): Attachment | undefined {
    const found = this.#byPod.get(pod);
    const isOther = uid !== undefined && found?.uid !== undefined &&
      found.uid !== uid;
    return isOther ? undefined : found;
  }

  /** The attachment of a key. */
  at(key: PodKey): Attachment | undefined {
    const pod = this.#pods.get(keyText(key));
    return pod === undefined ? undefined : this.#byPod.get(pod);
  }

  /** Forgets an attachment. */
  forget(key: PodKey): void {
    const pod = this.#pods.get(keyText(key));
    this.#pods.delete(keyText(key));
    if (pod !== undefined) this.#byPod.delete(pod);
  }
}
