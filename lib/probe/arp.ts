import { concatenate } from "../bytes/mod.ts";
import { Address } from "../inet/mod.ts";
import type { Bytes } from "../linux/mod.ts";
import {
  BROADCAST,
  ethernet,
  ETHERNET_BYTES,
  macBytes,
  macText,
} from "./ethernet.ts";

/** ARP over Ethernet for IPv4, RFC 826: hardware and protocol types, address lengths. */
const HEAD = Uint8Array.of(0, 1, 0x08, 0x00, 6, 4);
const REQUEST = 1;
const ARP_BYTES = 28;
const ETHERTYPE = 0x0806;

/** What of an ARP packet counts. */
export interface ArpPacket {
  readonly senderMac: string;
  /** 0.0.0.0 of a probe. */
  readonly sender: Address;
  readonly target: Address;
}

/** A broadcast request. Without a sender it is a probe (RFC 5227), with the target as sender an announcement. The target's MAC address is not zero, as the RFC has it, but that of all, as upstream's. */
export function arpRequest(
  { mac, sender, target }: {
    readonly mac: string;
    readonly sender?: Address | undefined;
    readonly target: Address;
  },
): Bytes {
  return concatenate([
    ethernet({ to: BROADCAST, from: mac, type: ETHERTYPE }),
    HEAD,
    Uint8Array.of(0, REQUEST),
    macBytes(mac),
    sender?.toBytes() ?? new Uint8Array(4),
    macBytes(BROADCAST),
    target.toBytes(),
  ]);
}

/** Reads a frame; undefined when it is not ARP for IPv4. */
export function parseArp(frame: Uint8Array): ArpPacket | undefined {
  if (frame.length < ETHERNET_BYTES + ARP_BYTES) return undefined;
  const view = new DataView(frame.buffer, frame.byteOffset);
  if (view.getUint16(ETHERNET_BYTES - 2) !== ETHERTYPE) return undefined;
  const packet = frame.subarray(ETHERNET_BYTES);
  if (HEAD.some((byte, i) => byte !== packet[i])) return undefined;
  return {
    senderMac: macText(packet.subarray(8, 14)),
    sender: Address.fromBytes(packet.subarray(14, 18)),
    target: Address.fromBytes(packet.subarray(24, 28)),
  };
}
