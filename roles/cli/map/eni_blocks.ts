/** Blocks by the IDs of their ENIs, with which the names of pool `vpc`'s blocks begin. Pure. */
export function blocksByEni<B extends { readonly name: string }>(
  blocks: readonly B[],
): Map<string, B[]> {
  return Map.groupBy(blocks, ({ name }) => name.slice(0, name.indexOf("/")));
}
