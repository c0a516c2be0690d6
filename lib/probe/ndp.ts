import { concatenate } from "../bytes/mod.ts";
import { Address } from "../inet/mod.ts";
import type { Bytes } from "../linux/mod.ts";
import { checksum } from "./checksum.ts";
import { ethernet, ETHERNET_BYTES, macBytes, macText } from "./ethernet.ts";

// Neighbour discovery, RFC 4861.
const ETHERTYPE = 0x86dd;
const IPV6_BYTES = 40;
const ICMPV6 = 58;
/** What comes from another network has a lower one. */
const HOP_LIMIT = 255;
const SOLICITATION = 135;
const ADVERTISEMENT = 136;
/** Type, code, checksum, flags, target. */
const MESSAGE_BYTES = 24;
/** The flag that makes neighbours take the new MAC address. */
const OVERRIDE = 0x20;
const SOURCE_MAC = 1;
const TARGET_MAC = 2;
const UNSPECIFIED = Address.parse("::");
const ALL_NODES = Address.parse("ff02::1");
const SOLICITED_NODE = Address.parse("ff02::1:ff00:0").toBytes();

/** What of a message counts. */
export interface NdpMessage {
  readonly kind: "solicitation" | "advertisement";
  /** Of the frame. */
  readonly mac: string;
  /** `::` of a probe. */
  readonly source: Address;
  readonly target: Address;
}

/** Asks who has an address. Without a source it is a probe (RFC 4862), which the sender needs no address for. */
export function solicitation(
  { mac, source, target }: {
    readonly mac: string;
    readonly source?: Address | undefined;
    readonly target: Address;
  },
): Bytes {
  return frame({
    mac,
    source: source ?? UNSPECIFIED,
    destination: solicitedNode(target),
    body: concatenate([
      Uint8Array.of(SOLICITATION, 0, 0, 0, 0, 0, 0, 0),
      target.toBytes(),
      source === undefined ? new Uint8Array() : option(SOURCE_MAC, mac),
    ]),
  });
}

/** Announces the MAC address of an address to all nodes. */
export function unsolicitedAdvertisement(
  { mac, address }: { readonly mac: string; readonly address: Address },
): Bytes {
  return frame({
    mac,
    source: address,
    destination: ALL_NODES,
    body: concatenate([
      Uint8Array.of(ADVERTISEMENT, 0, 0, 0, OVERRIDE, 0, 0, 0),
      address.toBytes(),
      option(TARGET_MAC, mac),
    ]),
  });
}

/** Reads a frame; undefined when it is neither of the two, or comes from another network. */
export function parseNdp(bytes: Uint8Array): NdpMessage | undefined {
  const start = ETHERNET_BYTES + IPV6_BYTES;
  if (bytes.length < start + MESSAGE_BYTES) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const isNdp = view.getUint16(ETHERNET_BYTES - 2) === ETHERTYPE &&
    view.getUint8(ETHERNET_BYTES + 6) === ICMPV6 &&
    view.getUint8(ETHERNET_BYTES + 7) === HOP_LIMIT;
  const type = view.getUint8(start);
  if (!isNdp || type !== SOLICITATION && type !== ADVERTISEMENT) {
    return undefined;
  }
  const addressAt = (at: number) =>
    Address.fromBytes(bytes.subarray(at, at + 16));
  return {
    kind: type === SOLICITATION ? "solicitation" : "advertisement",
    mac: macText(bytes.subarray(6, 12)),
    source: addressAt(ETHERNET_BYTES + 8),
    target: addressAt(start + 8),
  };
}

/** A message to a multicast group, in its frame. Writes the checksum into the message, which is an array of its own. */
export function frame(
  { mac, source, destination, body }: {
    readonly mac: string;
    readonly source: Address;
    readonly destination: Address;
    readonly body: Bytes;
  },
): Bytes {
  const addresses = concatenate([source.toBytes(), destination.toBytes()]);
  const view = new DataView(body.buffer);
  const pseudo = Uint8Array.of(0, 0, 0, body.length, 0, 0, 0, ICMPV6);
  view.setUint16(2, checksum(concatenate([addresses, pseudo, body])));
  const head = Uint8Array.of(
    ...[0x60, 0, 0, 0, 0, body.length, ICMPV6, HOP_LIMIT],
  );
  const to = macText(
    concatenate([Uint8Array.of(0x33, 0x33), destination.toBytes().slice(-4)]),
  );
  const header = ethernet({ to, from: mac, type: ETHERTYPE });
  return concatenate([header, head, addresses, body]);
}

/** The multicast group of all nodes with an address that ends alike. */
function solicitedNode(address: Address): Address {
  return Address.fromBytes(
    concatenate([SOLICITED_NODE.slice(0, 13), address.toBytes().slice(-3)]),
  );
}

function option(type: number, mac: string): Bytes {
  return concatenate([Uint8Array.of(type, 1), macBytes(mac)]);
}
