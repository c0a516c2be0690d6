import { createHash } from "node:crypto";
import type { Address, Family } from "../../inet/mod.ts";

/**
 * Kind of tunnel link of each family, with the names that upstream Coil gives.
 * `fallback` is what the kernel makes by itself when it loads the module, and
 * what it is renamed to; `receiver` takes all that no other tunnel link matches.
 */
export const TUNNEL_LINKS: Readonly<Record<Family, TunnelLinks>> = {
  ipv4: {
    kind: "ipip",
    prefix: "fou4_",
    receiver: "coil_ipip4",
    fallback: { from: "tunl0", to: "coil_tunl" },
  },
  ipv6: {
    kind: "ip6tnl",
    prefix: "fou6_",
    receiver: "coil_ipip6",
    fallback: { from: "ip6tnl0", to: "coil_ip6tnl" },
  },
};

/** The tunnel links of one family. */
export interface TunnelLinks {
  /** The kernel's word for tunnels of this family in the same family. */
  readonly kind: "ipip" | "ip6tnl";
  /** Start of the name of a tunnel to a gateway. */
  readonly prefix: string;
  /** Name of the link that receives from any sender. */
  readonly receiver: string;
  /** The kernel's own link and its new name. */
  readonly fallback: { readonly from: string; readonly to: string };
}

/** Upstream Coil's mark of a prepared namespace: a link of kind `dummy` without a use. */
export const UPSTREAM_MARKER = "fou-dummy";

/** Time to live of the outer packets. A fixed one makes the kernel forbid their fragmentation. */
export const TUNNEL_TTL = 225;

/**
 * The name of the tunnel to a gateway, upstream Coil's: `fou4_` and the
 * address in hexadecimal, or `fou6_` and 8 digits of the SHA-1 of its 16 bytes.
 */
export function tunnelName(remote: Address): string {
  const { prefix } = TUNNEL_LINKS[remote.family];
  if (remote.family === "ipv4") {
    return prefix + remote.value.toString(16).padStart(8, "0");
  }
  const digest = createHash("sha1").update(remote.toBytes()).digest("hex");
  return prefix + digest.slice(0, 8);
}

/** The family of a tunnel to a gateway, by its name; undefined for any other link. */
export function tunnelFamily(name: string): Family | undefined {
  const digits = /^fou([46])_[0-9a-f]{8}$/.exec(name)?.[1];
  if (digits === undefined) return undefined;
  return digits === "4" ? "ipv4" : "ipv6";
}

const CLIENT_LINKS: ReadonlySet<string> = new Set(
  Object.values(TUNNEL_LINKS).flatMap(({ receiver, fallback }) => [
    receiver,
    fallback.from,
    fallback.to,
  ]),
);

/** Whether a link of this name belongs to the tunnels of a client, the kernel's own ones included. */
export function isClientLink({ name }: { readonly name: string }): boolean {
  return tunnelFamily(name) !== undefined || CLIENT_LINKS.has(name) ||
    name === UPSTREAM_MARKER;
}
