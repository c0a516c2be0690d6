import type { Address } from "./address.ts";
import type { Prefix } from "./prefix.ts";

/** Each address or prefix once, where it is first. */
export function distinct<T extends Address | Prefix>(
  values: readonly T[],
): T[] {
  const seen = new Map<string, T>();
  for (const value of values) {
    const text = value.toString();
    if (!seen.has(text)) seen.set(text, value);
  }
  return [...seen.values()];
}
