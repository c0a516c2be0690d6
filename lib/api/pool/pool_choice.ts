import type { Annotations } from "../../kube/mod.ts";
import {
  DEFAULT_POOL,
  POD_POOLS_ANNOTATION,
  POOL_ANNOTATION,
} from "../../names/mod.ts";

/** As many pools of a list are looked at: each may cost a request. */
const MAX_POOLS = 8;

/** One character more than a pool's name may have: a longer one stays one that no pool has. */
const MAX_NAME_CHARS = 64;

/**
 * Reads annotation `coil.cybozu.com/pool` of a namespace or a pod: names of
 * pools with commas between, of which the first that has an address gives it.
 * Without the annotation, the default pool. Names that are too long for a pool
 * are shortened: anyone who creates a pod may make its annotations long.
 */
export function poolNamesOf(annotation: string | undefined): string[] {
  if (annotation === undefined) return [DEFAULT_POOL];
  const names = annotation.split(",").map(nameIn).filter((name) => name !== "");
  // One that names nothing is reported with the text that it has.
  if (names.length === 0) return [annotation.slice(0, MAX_NAME_CHARS)];
  return [...new Set(names)].slice(0, MAX_POOLS);
}

/** The same with these names alone, for a cache. */
export function shortenPoolAnnotation(annotation: string): string {
  return poolNamesOf(annotation).join();
}

function nameIn(part: string): string {
  return part.trim().slice(0, MAX_NAME_CHARS);
}

/** The pools of a pod. */
export interface ChosenPools {
  readonly kind: "chosen";
  readonly pools: readonly string[];
  /** Whose annotation names them; by `default` neither does. */
  readonly from: "pod" | "namespace" | "default";
}

/** The pools of a pod, or those that it names and may not. */
export type PoolChoice =
  | ChosenPools
  | {
    readonly kind: "refused";
    readonly pools: readonly string[];
    readonly allowed: readonly string[];
  };

/**
 * Chooses a pod's pools: those that it names itself, where its namespace lists
 * pools that pods may name, else its namespace's. Without such a list the pod's
 * annotation has no effect, as in Coil v2.
 */
export function choosePools(
  pod: Annotations | undefined,
  namespace: Annotations | undefined,
): PoolChoice {
  const list = namespace?.[POD_POOLS_ANNOTATION];
  const own = pod?.[POOL_ANNOTATION];
  if (list === undefined || own === undefined) {
    const usual = namespace?.[POOL_ANNOTATION];
    const from = usual === undefined ? "default" : "namespace";
    return { kind: "chosen", pools: poolNamesOf(usual), from };
  }
  const allowed = list.split(",").map((name) => name.trim())
    .filter((name) => name !== "");
  const pools = poolNamesOf(own);
  const refused = pools.filter((name) => !allowed.includes(name));
  return refused.length === 0
    ? { kind: "chosen", pools, from: "pod" }
    : { kind: "refused", pools: refused, allowed };
}
