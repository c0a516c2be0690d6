import type { PodName } from "../../../lib/podnet/mod.ts";

/** The text by which caches know a pod. */
export function podKey({ namespace, name }: PodName): string {
  return `${namespace}/${name}`;
}
