import { concatenate } from "../bytes/mod.ts";
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
  return concatenate([
    macBytes(to),
    macBytes(from),
    Uint8Array.of(type >> 8, type & 0xff),
  ]);
}
