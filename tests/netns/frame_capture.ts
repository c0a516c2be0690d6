/**
 * Frames that pass a link, as text: who sends what to whom. Of what kernels say
 * by themselves, and when they get round to it, there are only questions for
 * addresses that a whole network gets.
 *
 * @module
 */
import { Address } from "../../lib/inet/mod.ts";
import {
  Netns,
  openPacketSocket,
  type PacketSocket,
} from "../../lib/linux/mod.ts";
import type { TempNetns } from "./testing.ts";

/** ETH_P_ALL of `<linux/if_ether.h>`: both directions. */
const ETH_P_ALL = 3;
const ETHERTYPE = { ipv4: 0x0800, arp: 0x0806, ipv6: 0x86dd } as const;
const PROTOCOL = { icmp: 1, tcp: 6, icmpv6: 58 } as const;
const FRAME_BYTES = 2048;

/** Takes frames of one link from when it was opened on. */
export class FrameCapture implements AsyncDisposable {
  readonly #socket: PacketSocket;
  readonly #name: string;

  private constructor(socket: PacketSocket, name: string) {
    this.#socket = socket;
    this.#name = name;
  }

  /** `name` is what the link is called in texts. */
  static async open(
    { path, ipJson }: TempNetns,
    device: string,
    name: string = device,
  ): Promise<FrameCapture> {
    const [row] = await ipJson("link", "show", device);
    using netns = Netns.open(path);
    const index = Number(row?.["ifindex"]);
    const socket = openPacketSocket({ netns, index, protocol: ETH_P_ALL });
    return new FrameCapture(socket, name);
  }

  /** What has passed since the last time and how often, with names in the place of MAC addresses. */
  take(names: ReadonlyMap<string, string>): Map<string, number> {
    const found = new Map<string, number>();
    const buffer = new Uint8Array(FRAME_BYTES);
    for (;;) {
      const length = this.#socket.receiveNow(buffer);
      if (length === undefined) return found;
      const text = frameText(buffer.slice(0, length), names);
      if (text === undefined) continue;
      const key = `${this.#name}: ${text}`;
      found.set(key, (found.get(key) ?? 0) + 1);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#socket[Symbol.asyncDispose]();
  }
}

function frameText(
  frame: Uint8Array,
  names: ReadonlyMap<string, string>,
): string | undefined {
  const nameOf = (mac: string) =>
    mac === "ff:ff:ff:ff:ff:ff" || mac.startsWith("33:33:")
      ? "all"
      : names.get(mac) ?? mac;
  const to = nameOf(macAt(frame, 0));
  const packet = frame.subarray(14);
  const text = packetText(packet, u16(frame, 12), { isForAll: to === "all" });
  return text && `${nameOf(macAt(frame, 6))} > ${to}: ${text}`;
}

function packetText(
  packet: Uint8Array,
  type: number,
  { isForAll }: { readonly isForAll: boolean },
): string | undefined {
  switch (type) {
    case ETHERTYPE.arp: {
      const [from, to] = [addressAt(packet, 14, 4), addressAt(packet, 24, 4)];
      return isForAll ? `ARP ${from} asks for ${to}` : undefined;
    }
    case ETHERTYPE.ipv4: {
      const [from, to] = [addressAt(packet, 12, 4), addressAt(packet, 16, 4)];
      const rest = packet.subarray(((packet[0] ?? 0) & 15) * 4);
      const text = transportText(rest, packet[9] ?? 0);
      return text && `${from} to ${to}, ${text}`;
    }
    case ETHERTYPE.ipv6: {
      const [from, to] = [addressAt(packet, 8, 16), addressAt(packet, 24, 16)];
      const rest = packet.subarray(40);
      const text = packet[6] === PROTOCOL.icmpv6 && isForAll
        ? discoveryText(rest, from)
        : transportText(rest, packet[6] ?? 0);
      return text && `${from} to ${to}, ${text}`;
    }
    default:
      return undefined;
  }
}

/** RFC 4861, but for what kernels ask before they use an address. */
function discoveryText(packet: Uint8Array, from: string): string | undefined {
  const [type = 0] = packet;
  if (from === "::" || type !== 135 && type !== 136) return undefined;
  const what = type === 135 ? "solicitation" : "advertisement";
  return `${what} of ${addressAt(packet, 8, 16)}`;
}

function transportText(
  packet: Uint8Array,
  protocol: number,
): string | undefined {
  const [type = 0] = packet;
  const isEcho = protocol === PROTOCOL.icmp && (type === 8 || type === 0) ||
    protocol === PROTOCOL.icmpv6 && (type === 128 || type === 129);
  if (isEcho) return type === 8 || type === 128 ? "request" : "reply";
  if (protocol !== PROTOCOL.tcp) return undefined;
  const flags = packet[13] ?? 0;
  return `TCP${flags & 2 ? " SYN" : ""}${flags & 4 ? " RST" : ""}`;
}

function u16(bytes: Uint8Array, at: number): number {
  return ((bytes[at] ?? 0) << 8) + (bytes[at + 1] ?? 0);
}

function macAt(bytes: Uint8Array, at: number): string {
  return Array.from(
    bytes.subarray(at, at + 6),
    (byte) => byte.toString(16).padStart(2, "0"),
  ).join(":");
}

function addressAt(bytes: Uint8Array, at: number, length: 4 | 16): string {
  const address = Address.fromBytes(bytes.slice(at, at + length));
  // Kernels make up those.
  return address.isLinkLocal ? "link-local" : address.toString();
}
