import { Prefix } from "../../../lib/inet/mod.ts";

/** The addresses of a place in a block, one of each family. */
export function addressesAt(
  { ipv4, ipv6 }: { readonly ipv4?: string; readonly ipv6?: string },
  place: number,
): string[] {
  return [ipv4, ipv6].flatMap((text) => {
    const prefix = Prefix.tryParse(text ?? "");
    return prefix === undefined
      ? []
      : [prefix.address.offset(BigInt(place)).toString()];
  });
}

/** A share as a percentage; of large numbers as decimal text, too. */
export function percent(part: bigint, whole: bigint): number {
  return whole === 0n ? 0 : Number(part * 1000n / whole) / 10;
}

/** A number of things. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
