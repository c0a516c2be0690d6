import type { V1Pod } from "../../../lib/kube/mod.ts";

/**
 * A pod as it is cached. There may be 150,000, so that of one that uses no
 * Egress nothing is kept but its addresses.
 */
export interface CachedPod extends V1Pod {
  /** In place of all else: see {@linkcode addressText}. */
  readonly addresses?: string;
}

/** The addresses of a pod as its status has them, with blanks between. */
export function addressText({ addresses, status }: CachedPod): string {
  if (addresses !== undefined) return addresses;
  return (status?.podIPs ?? []).map(({ ip = "" }) => ip).join(" ");
}
