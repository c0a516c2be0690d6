import { createHash } from "node:crypto";
import { HOST_VETH_PREFIX, type NamespacedName } from "../../names/mod.ts";
import { type AttachmentKey, keyText } from "../../cni/mod.ts";

/** How many names a key may have. Two keys share the first one by chance of 2^-32. */
export const MAX_SALT = 3;

/**
 * The name of a pod's host veth: `veth` and 8 hexadecimal digits of the SHA-1
 * of its key, so that ADD, DEL and CHECK find it without listing links.
 * `salt` gives the next name where another key already has this one.
 */
export function hostVethName(key: AttachmentKey, salt: number = 0): string {
  const text = salt === 0 ? keyText(key) : `${keyText(key)}:${salt}`;
  return HOST_VETH_PREFIX + sha1(text).slice(0, 8);
}

/**
 * The name that Calico gives to a pod's host veth and Calico's policy engine
 * looks for: `veth` and 11 hexadecimal digits of the SHA-1 of `<namespace>.<name>`.
 */
export function calicoVethName(pod: NamespacedName): string {
  return HOST_VETH_PREFIX + sha1(`${pod.namespace}.${pod.name}`).slice(0, 11);
}

function sha1(text: string): string {
  return createHash("sha1").update(text).digest("hex");
}
