import { createHash } from "node:crypto";
import { type AttachmentKey, CniError, ErrorCode } from "../../cni/mod.ts";
import { COORDINATOR_ALIAS_PREFIX, COORDINATOR_VETH } from "../../names/mod.ts";

/** The link between a pod on an underlay network and its host. */
export interface VethSpec {
  readonly hostName: string;
  readonly hostMac: string;
  readonly podName: string;
  readonly podMac: string;
  readonly mtu: number;
  readonly alias: string;
}

/** IFALIASZ of `<linux/if.h>` without the terminating NUL. */
const MAX_ALIAS_BYTES = 255;

/**
 * The pair of a pod. Names and MAC addresses follow from the whole container
 * ID, so a second ADD finds the first one's.
 *
 * @throws {CniError} with code 4 when the ID leaves no room in an alias
 */
export function planVeth(
  { containerId, ifname }: AttachmentKey,
  { mtu }: { readonly mtu: number },
): VethSpec {
  const alias = `${COORDINATOR_ALIAS_PREFIX}${containerId}:${ifname}`;
  if (alias.length > MAX_ALIAS_BYTES) {
    throw new CniError(`container ID is too long: ${containerId}`, {
      code: ErrorCode.INVALID_ENVIRONMENT_VARIABLES,
      details: `with interface "${ifname}" it does not fit into a link's alias`,
    });
  }
  return {
    hostName: hostEndName(containerId),
    hostMac: macOf("host", containerId),
    podName: COORDINATOR_VETH,
    podMac: macOf("pod", containerId),
    mtu,
    alias,
  };
}

/** The name of the host's end of a container's pair. */
export function hostEndName(containerId: string): string {
  return `veth${sha1(containerId).slice(0, 11)}`;
}

/** Whose pair a host's end is, by its alias; undefined for links that are not the coordinator's. */
export function parseVethAlias(
  alias: string | undefined,
): AttachmentKey | undefined {
  if (alias?.startsWith(COORDINATOR_ALIAS_PREFIX) !== true) return undefined;
  const parts = alias.slice(COORDINATOR_ALIAS_PREFIX.length).split(":");
  const [containerId, ifname] = parts;
  if (parts.length !== 2 || !containerId || !ifname) return undefined;
  return { containerId, ifname };
}

/** Unicast and locally administered (IEEE 802). Given, not random: systemd changes those that the kernel made up. */
function macOf(end: "host" | "pod", containerId: string): string {
  const hex = sha1(`${end} ${containerId}`);
  const first = (Number.parseInt(hex.slice(0, 2), 16) & 0xfc) | 0x02;
  const text = first.toString(16).padStart(2, "0") + hex.slice(2, 12);
  return text.replace(/..(?=.)/g, "$&:");
}

function sha1(text: string): string {
  return createHash("sha1").update(text).digest("hex");
}
