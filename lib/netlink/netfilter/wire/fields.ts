import type { Family } from "../../../inet/mod.ts";
import { checkInterfaceName } from "../../message/names.ts";
import {
  CT,
  ctLoad,
  META,
  metaLoad,
  payloadLoad,
  type PayloadPart,
} from "./expressions.ts";
import type { NftField, NftHeaderAddress } from "../model/model.ts";
import type { Expression } from "./instruction.ts";

/** How a field is read. */
export interface FieldSource {
  /** How many bytes it is. */
  readonly size: number;
  /** Of which family the packet has to be. */
  readonly family?: Family;
  /** Whether it is behind a UDP header. */
  readonly inUdp?: boolean;
  /** Reads it into a register; of addresses, only so many bytes if given. */
  load(register: number, size?: number): Expression;
}

/** IFNAMSIZ of `<linux/if.h>`: names of links are compared with the zeros behind them. */
export const IFNAMSIZ = 16;

/** Where addresses are in a header, RFC 791 and RFC 8200. */
export const HEADER_ADDRESSES: Readonly<Record<NftHeaderAddress, PayloadPart>> =
  {
    "ip saddr": { base: "network", offset: 12, length: 4 },
    "ip daddr": { base: "network", offset: 16, length: 4 },
    "ip6 saddr": { base: "network", offset: 8, length: 16 },
    "ip6 daddr": { base: "network", offset: 24, length: 16 },
  };

/** A packet in a UDP datagram begins 8 bytes behind the UDP header's start. */
const SOURCES: Readonly<Record<NftField, FieldSource>> = {
  "ip saddr": inPacket("ipv4", HEADER_ADDRESSES["ip saddr"]),
  "ip daddr": inPacket("ipv4", HEADER_ADDRESSES["ip daddr"]),
  "ip6 saddr": inPacket("ipv6", HEADER_ADDRESSES["ip6 saddr"]),
  "ip6 daddr": inPacket("ipv6", HEADER_ADDRESSES["ip6 daddr"]),
  "inner ip saddr": inUdp({ base: "transport", offset: 20, length: 4 }),
  "inner ip daddr": inUdp({ base: "transport", offset: 24, length: 4 }),
  "inner ip6 saddr": inUdp({ base: "transport", offset: 16, length: 16 }),
  "inner ip6 daddr": inUdp({ base: "transport", offset: 32, length: 16 }),
  iifname: {
    size: IFNAMSIZ,
    load: (register) => metaLoad(META.iifname, register),
  },
  oifname: {
    size: IFNAMSIZ,
    load: (register) => metaLoad(META.oifname, register),
  },
  "meta mark": { size: 4, load: (register) => metaLoad(META.mark, register) },
  "ct mark": { size: 4, load: (register) => ctLoad(CT.mark, register) },
};

/** How to read a field. */
export function sourceOf(field: NftField): FieldSource {
  return SOURCES[field];
}

function inPacket(family: Family, part: PayloadPart): FieldSource {
  return {
    size: part.length,
    family,
    load: (register, length = part.length) =>
      payloadLoad({ ...part, length }, register),
  };
}

function inUdp(part: PayloadPart): FieldSource {
  return {
    size: part.length,
    inUdp: true,
    load: (register) => payloadLoad(part, register),
  };
}

/** A link's name with the zeros behind it, or the beginning of one. */
export function interfaceBytes(name: string): Uint8Array {
  const encoder = new TextEncoder();
  if (name.endsWith("*")) {
    const prefix = name.slice(0, -1);
    checkInterfaceName(prefix);
    return encoder.encode(prefix);
  }
  checkInterfaceName(name);
  const bytes = new Uint8Array(IFNAMSIZ);
  bytes.set(encoder.encode(name));
  return bytes;
}
