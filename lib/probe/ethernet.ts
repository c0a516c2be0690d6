import type { Bytes } from "../linux/mod.ts";

export const ETHERNET_BYTES = 14;
export const BROADCAST = "ff:ff:ff:ff:ff:ff";

export function macBytes(text: string): Bytes {
  return Uint8Array.from(text.split(":"), (byte) => Number.parseInt(byte, 16));
}

export function macText(bytes: Uint8Array): string {
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join(":");
}

/** The header of a frame. */
export function ethernet(
  { to, from, type }: {
    readonly to: string;
    readonly from: string;
    readonly type: number;
  },
): Bytes {
  return concat(
    macBytes(to),
    macBytes(from),
    Uint8Array.of(type >> 8, type & 0xff),
  );
}

/** The bytes one behind the other. */
export function concat(...parts: readonly Uint8Array[]): Bytes {
  const all = new Uint8Array(
    parts.reduce((sum, { length }) => sum + length, 0),
  );
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
