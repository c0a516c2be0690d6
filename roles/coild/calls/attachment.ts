import type { AttachmentKey } from "../../../lib/cni/mod.ts";
import type { Address, DualStack } from "../../../lib/inet/mod.ts";
import type { Netns } from "../../../lib/linux/mod.ts";
import type { NamespacedName } from "../../../lib/names/mod.ts";

/**
 * The interface of a pod that egress is about: the one whose addresses are in
 * the pod's status, as the runtimes of Kubernetes name it.
 */
export const POD_INTERFACE = "eth0";

/** A pod's interface as coild finds it again. */
export interface Attachment {
  /** The key of its lock; see `Attachments.connect()`. */
  readonly key: AttachmentKey;
  readonly pod: NamespacedName;
  /** The pod's UID in the API, where it is known. */
  readonly uid?: string | undefined;
  readonly addresses: DualStack<Address>;
  /** Found by an address of the pod's status, which is true only as long as the pod has it. Absent: known by more than that. */
  readonly byAddress?: true;
  /** Opens the pod's network namespace; undefined when there is none. */
  openNetns(): Promise<Netns | undefined>;
}

/** A new pod whose addresses are known. */
export type Addressed = Pick<Attachment, "pod" | "uid" | "addresses"> & {
  /** Name of the AddressBlock of its addresses; undefined when another plugin gave them. */
  readonly block?: string;
};
