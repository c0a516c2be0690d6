/** Waits for all, also when one fails: nothing may still run when the caller goes on. The first failure is thrown then. */
export async function settled<T extends readonly unknown[]>(
  promises: { readonly [K in keyof T]: Promise<T[K]> | T[K] },
): Promise<T> {
  await Promise.allSettled(promises);
  return await Promise.all(promises) as unknown as T;
}
