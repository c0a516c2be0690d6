import type { BlockView, HolderView } from "../ui/view.ts";

/** Whether any of the texts has the words, in any case; all have no words. */
export function isFound(
  query: string,
  ...texts: readonly (string | undefined)[]
): boolean {
  const words = query.toLowerCase().split(" ").filter((word) => word !== "");
  const all = texts.join("\n").toLowerCase();
  return words.every((word) => all.includes(word));
}

/** Whether a holder is what is searched for: its pod, its addresses, its node. */
export function isFoundHolder(
  query: string,
  { ipv4, ipv6, namespace, pod, node }: HolderView,
  block: BlockView,
): boolean {
  return isFound(query, ipv4, ipv6, `${namespace}/${pod}`, node, block.name);
}
