import { valuesOf } from "../../../lib/inet/mod.ts";
import { keyOf, type V1Pod } from "../../../lib/kube/mod.ts";
import { type AttachmentKey, keyText } from "../../../lib/cni/mod.ts";
import type { Attachment } from "./attachment.ts";
import { podAddresses } from "../cluster/pod_status.ts";
import { nameText } from "../../../lib/names/mod.ts";

/** Which attachment each pod of this node has, as far as this process knows. */
export class AttachmentBook {
  readonly #byPod = new Map<string, Attachment>();
  readonly #pods = new Map<string, string>();

  /** Notes a pod's attachment; of several, as of a sandbox that is recreated, the last one counts. */
  add(attachment: Attachment): void {
    const pod = nameText(attachment.pod);
    const old = this.#byPod.get(pod);
    if (old !== undefined) this.#pods.delete(keyText(old.key));
    // A pod that had it by its address, before the ADD that made it had ended, has nothing.
    const claimant = this.#pods.get(keyText(attachment.key));
    if (claimant !== undefined) this.#byPod.delete(claimant);
    this.#byPod.set(pod, attachment);
    this.#pods.set(keyText(attachment.key), pod);
  }

  /**
   * The attachment of a pod; not that of another pod of its name.
   *
   * An ADD that is faster than the cache of pods does not know the UID that
   * the API server has. Its pod is then the one that has its addresses: the
   * cache may still have a predecessor, whose annotations say something else.
   */
  of(pod: V1Pod): Attachment | undefined {
    const { uid } = pod.metadata ?? {};
    const found = this.#byPod.get(keyOf(pod));
    if (found === undefined) return undefined;
    if (found.uid !== undefined && found.uid !== uid) return undefined;
    const isProven = found.uid !== undefined && found.byAddress === undefined;
    return isProven || sharesAddress(found, pod) ? found : undefined;
  }

  /** All attachments, as they are now. */
  list(): Attachment[] {
    return [...this.#byPod.values()];
  }

  at(key: AttachmentKey): Attachment | undefined {
    const pod = this.#pods.get(keyText(key));
    return pod === undefined ? undefined : this.#byPod.get(pod);
  }

  /**
   * Whether the attachment's key is known to be another pod's: an address may
   * have had a pod before, whose status still has it. A pod that has the key by its
   * address alone does not prove that no other pod has the address now.
   */
  isOfAnother({ key, pod }: Attachment): boolean {
    const known = this.at(key);
    return known !== undefined && known.byAddress === undefined &&
      nameText(known.pod) !== nameText(pod);
  }

  forget(key: AttachmentKey): void {
    const pod = this.#pods.get(keyText(key));
    this.#pods.delete(keyText(key));
    if (pod !== undefined) this.#byPod.delete(pod);
  }
}

function sharesAddress({ addresses }: Attachment, pod: V1Pod): boolean {
  return podAddresses(pod).some((address) =>
    valuesOf(addresses).some((own) => own.equals(address))
  );
}
