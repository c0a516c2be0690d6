/**
 * Whether an object's version is older than another of it. Versions are
 * decimal numbers that grow, see "Resource versions" in Kubernetes' API
 * concepts; false for others, which cannot be compared.
 */
export function precedes(
  a: string | undefined,
  b: string | undefined,
): boolean {
  if (a === undefined || b === undefined) return false;
  if (!/^\d+$/.test(a) || !/^\d+$/.test(b)) return false;
  return BigInt(a) < BigInt(b);
}
