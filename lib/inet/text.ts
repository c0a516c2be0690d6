import type { Family } from "./family.ts";

/** The numeric form of an address text, with the family it was written in. */
export interface ParsedText {
  readonly family: Family;
  readonly value: bigint;
}

const OCTET = /^(?:0|[1-9][0-9]{0,2})$/;
const WORD = /^[0-9a-f]{1,4}$/i;

/**
 * Parses the text of one address, or returns undefined. Short forms, leading
 * zeros, hexadecimal octets, blanks and zone identifiers are refused. An
 * IPv4-mapped text stays an IPv6 address.
 */
export function parseText(text: string): ParsedText | undefined {
  const family = text.includes(":") ? "ipv6" : "ipv4";
  const value = family === "ipv6" ? ipv6Value(text) : ipv4Value(text);
  return value === undefined ? undefined : { family, value: BigInt(value) };
}

function ipv4Value(text: string): number | undefined {
  const octets = text.split(".");
  if (octets.length !== 4) return undefined;
  let value = 0;
  for (const octet of octets) {
    if (!OCTET.test(octet) || Number(octet) > 255) return undefined;
    value = value * 256 + Number(octet);
  }
  return value;
}

function ipv6Value(text: string): bigint | undefined {
  const [head = "", tail, ...others] = text.split("::");
  // Only the last words may be an IPv4 address.
  const front = wordsOf(head, { dotted: tail === undefined });
  const back = wordsOf(tail ?? "", { dotted: true });
  if (front === undefined || back === undefined || others.length > 0) {
    return undefined;
  }
  const missing = 8 - front.length - back.length;
  if (tail === undefined ? missing !== 0 : missing < 1) return undefined;
  let value = 0n;
  for (
    const word of [...front, ...new Array<number>(missing).fill(0), ...back]
  ) {
    value = (value << 16n) | BigInt(word);
  }
  return value;
}

function wordsOf(
  text: string,
  { dotted }: { readonly dotted: boolean },
): number[] | undefined {
  if (text === "") return [];
  const parts = text.split(":");
  const words: number[] = [];
  for (const [i, part] of parts.entries()) {
    const quad = dotted && i === parts.length - 1 && part.includes(".")
      ? ipv4Value(part)
      : undefined;
    if (quad !== undefined) words.push(Math.floor(quad / 65536), quad % 65536);
    else if (WORD.test(part)) words.push(parseInt(part, 16));
    else return undefined;
  }
  return words;
}

/** Formats an IPv4 address in dotted decimal. */
export function formatIpv4(value: bigint): string {
  const n = Number(value);
  return `${n >>> 24}.${(n >>> 16) & 255}.${(n >>> 8) & 255}.${n & 255}`;
}

/**
 * Formats an IPv6 address as RFC 5952 section 4 says: lower case, no leading zeros, "::" for the first longest run
 * of at least two zero words; and with a dotted tail for IPv4-mapped addresses, as its section 5 recommends.
 */
export function formatIpv6(value: bigint): string {
  if (value >> 32n === 0xffffn) {
    return `::ffff:${formatIpv4(value & 0xffffffffn)}`;
  }
  const words: number[] = [];
  for (let shift = 112n; shift >= 0n; shift -= 16n) {
    words.push(Number((value >> shift) & 0xffffn));
  }
  const run = longestZeroRun(words);
  const hex = words.map((word) => word.toString(16));
  if (run.length < 2) return hex.join(":");
  const head = hex.slice(0, run.start).join(":");
  const tail = hex.slice(run.start + run.length).join(":");
  return `${head}::${tail}`;
}

function longestZeroRun(words: readonly number[]): {
  start: number;
  length: number;
} {
  let best = { start: 0, length: 0 };
  let start = 0;
  words.forEach((word, i) => {
    if (word !== 0) start = i + 1;
    else if (i + 1 - start > best.length) {
      best = { start, length: i + 1 - start };
    }
  });
  return best;
}
