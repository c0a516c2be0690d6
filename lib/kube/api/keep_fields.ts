/** The fields of an object that are named and set: caches keep no others. */
export function keepFields<T extends object, K extends keyof T>(
  object: T | undefined,
  ...names: readonly K[]
): Partial<Pick<T, K>> {
  const kept: Partial<Pick<T, K>> = {};
  for (const name of names) {
    if (object?.[name] !== undefined) kept[name] = object[name];
  }
  return kept;
}
