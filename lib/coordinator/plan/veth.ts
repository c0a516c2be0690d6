import { type AttachmentKey, CniError, ErrorCode } from "../../cni/mod.ts";
import {
  COORDINATOR_ALIAS_PREFIX,
  COORDINATOR_HUSK_ALIAS_PREFIX,
  COORDINATOR_VETH,
} from "../../names/mod.ts";
import { type Link, MAX_ALIAS_BYTES } from "../../netlink/mod.ts";

/** The link between a pod on an underlay network and its host. */
export interface VethSpec {
  readonly hostName: string;
  readonly hostMac: string;
  readonly podName: string;
  readonly podMac: string;
  readonly mtu: number;
  readonly alias: string;
}

/** The host's end of a pair that is cut off and waits for its deletion. */
export interface CoordinatorHusk extends AttachmentKey {
  readonly index: number;
}

/**
 * The pair of a pod. Names and MAC addresses follow from the whole container
 * ID, so a second ADD finds the first one's.
 *
 * @throws {CniError} with code 4 when the ID leaves no room in an alias
 */
export async function planVeth(
  { containerId, ifname }: AttachmentKey,
  { mtu }: { readonly mtu: number },
): Promise<VethSpec> {
  const key = { containerId, ifname };
  if (huskAlias(key).length > MAX_ALIAS_BYTES) {
    throw new CniError(`container ID is too long: ${containerId}`, {
      code: ErrorCode.INVALID_ENVIRONMENT_VARIABLES,
      details: `with interface "${ifname}" it does not fit into a link's alias`,
    });
  }
  const digest = await sha1(containerId);
  return {
    hostName: nameOf(digest),
    hostMac: macOf(digest.slice(11, 23)),
    podName: COORDINATOR_VETH,
    podMac: macOf(digest.slice(23, 35)),
    mtu,
    alias: formatAlias(COORDINATOR_ALIAS_PREFIX, key),
  };
}

/** The alias of a host's end that is cut off. */
export function huskAlias(key: AttachmentKey): string {
  return formatAlias(COORDINATOR_HUSK_ALIAS_PREFIX, key);
}

function formatAlias(prefix: string, { containerId, ifname }: AttachmentKey) {
  return `${prefix}${containerId}:${ifname}`;
}

/** The name of the host's end of a container's pair. */
export async function hostEndName(containerId: string): Promise<string> {
  return nameOf(await sha1(containerId));
}

function nameOf(digest: string): string {
  return `veth${digest.slice(0, 11)}`;
}

/** A link, and whose it says that it is. */
type Named = Pick<Link, "alias" | "kind">;

/** Whose pair a host's end is, by its alias; undefined for links that are not the coordinator's. */
export function pairOf(link: Named): AttachmentKey | undefined {
  return parseAlias(COORDINATOR_ALIAS_PREFIX, link);
}

/** Whose pair a host's end was that is cut off; undefined for other links. */
export function formerPairOf(link: Named): AttachmentKey | undefined {
  return parseAlias(COORDINATOR_HUSK_ALIAS_PREFIX, link);
}

/** A network card that was a pod's comes back to the host with the alias that a container has given it. */
function parseAlias(
  prefix: string,
  { alias, kind }: Named,
): AttachmentKey | undefined {
  if (kind !== "veth" || !alias?.startsWith(prefix)) return undefined;
  const parts = alias.slice(prefix.length).split(":");
  const [containerId, ifname] = parts;
  if (parts.length !== 2 || !containerId || !ifname) return undefined;
  return { containerId, ifname };
}

/** Unicast and locally administered (IEEE 802). Given, not random: systemd changes those that the kernel made up. */
function macOf(hex: string): string {
  const first = (Number.parseInt(hex.slice(0, 2), 16) & 0xfc) | 0x02;
  const text = first.toString(16).padStart(2, "0") + hex.slice(2);
  return text.replace(/..(?=.)/g, "$&:");
}

/** By Web Crypto: each call would have to load node:crypto. It works on another thread, so one has to serve for all. */
async function sha1(text: string): Promise<string> {
  const digest = await crypto.subtle.digest(
    "SHA-1",
    new TextEncoder().encode(text),
  );
  return new Uint8Array(digest).toHex();
}
