/**
 * The instructions that rules consist of. They work on registers: one loads a
 * part of the packet, the next compares it, and the rule ends when it differs.
 * Names and numbers are those of `<linux/netfilter/nf_tables.h>`.
 *
 * @module
 */

import {
  NF_ACCEPT,
  NF_DROP,
  NFT_OBJECT_COUNTER,
  NFTA_DATA_VALUE,
  NFTA_DATA_VERDICT,
  NFTA_VERDICT_CODE,
} from "./constants.ts";
import { type Expression, instruction } from "./instruction.ts";

/** The register that a rule's first value goes to, and where a verdict goes. */
const NFT_REG_VERDICT = 0;
export const NFT_REG_1 = 1;
const NFT_REG32_00 = 8;
/** Bytes in one of the large registers and in one of the small ones that overlay them. */
const NFT_REG_SIZE = 16;
const NFT_REG32_SIZE = 4;

/** The register so many bytes behind the first one; a large one where it can be, as the kernel says it. */
export function registerAt(offset: number): number {
  return offset % NFT_REG_SIZE === 0
    ? NFT_REG_1 + offset / NFT_REG_SIZE
    : NFT_REG32_00 + offset / NFT_REG32_SIZE;
}

/** Keys of `meta`, `enum nft_meta_keys`. */
export const META = {
  mark: 3,
  iif: 4,
  oif: 5,
  iifname: 6,
  oifname: 7,
  nfproto: 15,
  l4proto: 16,
  iifgroup: 21,
  random: 24,
} as const;

/** Keys of `ct`, `enum nft_ct_keys`. */
export const CT = { state: 0, direction: 1, status: 2, mark: 3 } as const;

/** Loads something known about the packet. */
export function metaLoad(key: number, register: number): Expression {
  return instruction("meta", { key, dreg: register });
}

/** Sets something known about the packet from the first register. */
export function metaSet(key: number): Expression {
  return instruction("meta", { key, sreg: NFT_REG_1 });
}

/** Loads something known about the connection. */
export function ctLoad(key: number, register: number): Expression {
  return instruction("ct", { key, dreg: register });
}

/** Sets something known about the connection from the first register. */
export function ctSet(key: number): Expression {
  return instruction("ct", { key, sreg: NFT_REG_1 });
}

/**
 * Looks up the route to the packet's source and loads 1 when it leads to the
 * link that the packet came in by, else 0: `fib saddr . iif oif`.
 */
export function reversePathLoad(register: number): Expression {
  const flags = 1 | 8 | 32; // NFTA_FIB_F_SADDR, NFTA_FIB_F_IIF, NFTA_FIB_F_PRESENT
  const result = 1; // NFT_FIB_RESULT_OIF
  return instruction("fib", { flags, result, dreg: register });
}

/** Where offsets count from, `enum nft_payload_bases`. */
export type PayloadBase = "network" | "transport";
const PAYLOAD_BASES: Readonly<Record<PayloadBase, number>> = {
  network: 1,
  transport: 2,
};

/** Which bytes of the packet are meant. */
export interface PayloadPart {
  readonly base: PayloadBase;
  readonly offset: number;
  readonly length: number;
}

/** Loads bytes of the packet; the rule ends where the packet is too short. */
export function payloadLoad(part: PayloadPart, register: number): Expression {
  const { base, offset, length } = part;
  return instruction("payload", {
    dreg: register,
    base: PAYLOAD_BASES[base],
    offset,
    len: length,
  });
}

/**
 * Writes the first register into a source or destination address. The checksum
 * of an IPv4 header is corrected, and that of what the packet carries.
 */
export function addressWrite(part: PayloadPart): Expression {
  const { base, offset, length } = part;
  // Of an IPv4 header: NFT_PAYLOAD_CSUM_INET, RFC 791.
  const header = length === 4 ? { csum_type: 1, csum_offset: 10 } : {};
  return instruction("payload", {
    sreg: NFT_REG_1,
    base: PAYLOAD_BASES[base],
    offset,
    len: length,
    csum_type: header.csum_type,
    csum_offset: header.csum_offset,
    csum_flags: 1, // NFT_PAYLOAD_L4CSUM_PSEUDOHDR
  });
}

/** NFT_CMP_… of `<linux/netfilter/nf_tables.h>`. */
const COMPARISONS = { eq: 0, neq: 1, lt: 2 } as const;

/** Ends the rule unless the first register holds the bytes (`eq`), something else (`neq`), or less (`lt`, byte by byte). */
export function compare(
  op: keyof typeof COMPARISONS,
  bytes: Uint8Array,
): Expression {
  return instruction("cmp", {
    sreg: NFT_REG_1,
    op: COMPARISONS[op],
    data: [[NFTA_DATA_VALUE, bytes]],
  });
}

/** Keeps the bits of the mask in the first register, and turns those of `xor` round. */
export function bitwiseAnd(
  mask: Uint8Array,
  xor: Uint8Array = new Uint8Array(mask.byteLength),
): Expression {
  return instruction("bitwise", {
    sreg: NFT_REG_1,
    dreg: NFT_REG_1,
    len: mask.byteLength,
    mask: [[NFTA_DATA_VALUE, mask]],
    xor: [[NFTA_DATA_VALUE, xor]],
  });
}

/** Sets bits in the first register, as nft says it: they are cleared and turned round. */
export function bitwiseOr(bits: Uint8Array): Expression {
  return bitwiseAnd(bits.map((byte) => ~byte), bits);
}

/** Ends the rule unless the registers from the first on are an element of the set, or unless they are none. */
export function lookup(set: string, options: { not: boolean }): Expression {
  const invert = 1; // NFT_LOOKUP_F_INV
  const flags = options.not ? invert : undefined;
  return instruction("lookup", { sreg: NFT_REG_1, set, flags });
}

/** Puts what a map has for the first register there instead; the rule ends where it has nothing. */
export function lookupValue(map: string): Expression {
  return instruction("lookup", { sreg: NFT_REG_1, dreg: NFT_REG_1, set: map });
}

/** Puts bytes into the first register. */
export function immediate(bytes: Uint8Array): Expression {
  return instruction("immediate", {
    dreg: NFT_REG_1,
    data: [[NFTA_DATA_VALUE, bytes]],
  });
}

/** Decides about the packet. */
export function verdict(decision: "accept" | "drop"): Expression {
  const code = decision === "accept" ? NF_ACCEPT : NF_DROP;
  return instruction("immediate", {
    dreg: NFT_REG_VERDICT,
    data: [[NFTA_DATA_VERDICT, [[NFTA_VERDICT_CODE, code]]]],
  });
}

/** Counts with a counter of the table. */
export function countWith(name: string): Expression {
  return instruction("objref", {
    imm_type: NFT_OBJECT_COUNTER,
    imm_name: name,
  });
}

/** Gives the connection the address of the link that it leaves by. */
export function masq(): Expression {
  return instruction("masq", {});
}

/** Keeps connection tracking away from the packet. */
export function untrack(): Expression {
  return { name: "notrack" };
}

/** Refuses with an ICMP code that means the same in both families, `enum nft_reject_inet_code`. */
export function rejectIcmpx(code: number): Expression {
  const type = 2; // NFT_REJECT_ICMPX_UNREACH
  return instruction("reject", { type, icmp_code: Uint8Array.of(code) });
}

/** Puts the largest TCP segment that the packet's route has room for into the first register. */
export function routeTcpMss(): Expression {
  const key = 3; // NFT_RT_TCPMSS
  return instruction("rt", { key, dreg: NFT_REG_1 });
}

/** Makes a 16-bit number in the first register big-endian. */
export function hostToNetwork16(): Expression {
  const op = 1; // NFT_BYTEORDER_HTON
  return instruction("byteorder", {
    sreg: NFT_REG_1,
    dreg: NFT_REG_1,
    op,
    len: 2,
    size: 2,
  });
}

/** Writes the first register into the segment size that a TCP header carries; it is never raised (nft_exthdr_tcp_set_eval()). */
export function writeTcpMaxseg(): Expression {
  const type = Uint8Array.of(2); // TCPOPT_MAXSEG of <net/tcp.h>
  const op = 1; // NFT_EXTHDR_OP_TCPOPT
  return instruction("exthdr", {
    sreg: NFT_REG_1,
    type,
    offset: 2,
    len: 2,
    op,
  });
}
