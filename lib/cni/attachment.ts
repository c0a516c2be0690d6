/** One interface of one container: what a runtime adds, checks and deletes. */
export interface AttachmentKey {
  /** The container ID that the runtime gave (`CNI_CONTAINERID`). */
  readonly containerId: string;
  /** The interface's name inside the container (`CNI_IFNAME`). */
  readonly ifname: string;
}

/** The key of something that has one, without the rest. */
export function keyOf({ containerId, ifname }: AttachmentKey): AttachmentKey {
  return { containerId, ifname };
}

/** A key as text, for maps, locks and logs. An interface's name has no colon (Linux refuses it), so texts are unique. */
export function keyText({ containerId, ifname }: AttachmentKey): string {
  return `${containerId}:${ifname}`;
}

/** Whether both mean the same interface of the same container. */
export function sameKey(a: AttachmentKey, b: AttachmentKey): boolean {
  return a.containerId === b.containerId && a.ifname === b.ifname;
}
