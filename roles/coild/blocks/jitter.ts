import { createHash } from "node:crypto";

/** A number from 0 to below 1 that depends on the text alone. */
export function fractionOf(text: string): number {
  const digest = createHash("sha256").update(text).digest();
  return digest.readUInt32BE(0) / 2 ** 32;
}
