import { DEFAULT_POOL } from "../../names/mod.ts";

/** As many pools of a list are looked at: each may cost a request. */
const MAX_POOLS = 8;

/**
 * Reads a namespace's annotation `coil.cybozu.com/pool`: names of pools with
 * commas between, of which the first that has an address gives it. Without
 * the annotation, the default pool.
 */
export function poolNamesOf(annotation: string | undefined): string[] {
  if (annotation === undefined) return [DEFAULT_POOL];
  const names = annotation.split(",").map((name) => name.trim())
    .filter((name) => name !== "");
  // One that names nothing is reported with the text that it has.
  if (names.length === 0) return [annotation];
  return [...new Set(names)].slice(0, MAX_POOLS);
}
