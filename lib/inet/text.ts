import { Validator } from "ip-num";
import type { Family } from "./family.ts";

/** The numeric form of an address text, with the family it was written in. */
export interface ParsedText {
  readonly family: Family;
  readonly value: bigint;
}

/**
 * Parses the text of one address, or returns undefined.
 *
 * ip-num decides what is well formed; it refuses short forms, leading zeros, hexadecimal octets and blanks. The
 * one thing it lets through that must not become an address is a zone identifier ("fe80::1%eth0"), so that is
 * refused here. An IPv4-mapped text stays an IPv6 address.
 */
export function parseText(text: string): ParsedText | undefined {
  if (text.includes(":")) {
    if (text.includes("%") || !Validator.isValidIPv6String(text)[0]) {
      return undefined;
    }
    return { family: "ipv6", value: ipv6Value(text) };
  }
  if (!Validator.isValidIPv4String(text)[0]) return undefined;
  return { family: "ipv4", value: BigInt(ipv4Number(text)) };
}

function ipv4Number(text: string): number {
  let value = 0;
  for (const octet of text.split(".")) value = value * 256 + Number(octet);
  return value;
}

function ipv6Value(text: string): bigint {
  const [head = "", tail] = text.split("::");
  const front = wordsOf(head);
  const back = tail === undefined ? [] : wordsOf(tail);
  const zeros = new Array<number>(8 - front.length - back.length).fill(0);
  let value = 0n;
  for (const word of [...front, ...zeros, ...back]) {
    value = (value << 16n) | BigInt(word);
  }
  return value;
}

function wordsOf(text: string): number[] {
  if (text === "") return [];
  const words: number[] = [];
  for (const part of text.split(":")) {
    if (part.includes(".")) {
      const quad = ipv4Number(part);
      words.push(Math.floor(quad / 65536), quad % 65536);
    } else words.push(parseInt(part, 16));
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
