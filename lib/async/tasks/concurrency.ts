import { TaskGroup } from "./task_group.ts";

/** Calls `fn` for each item, at most `limit` at a time. The first failure stops the rest and is rethrown. */
export async function forEachConcurrently<T>(
  items: readonly T[],
  limit: number,
  fn: (item: T) => Promise<void>,
): Promise<void> {
  const rest = items.values();
  const group = new TaskGroup();
  for (let worker = 0; worker < Math.min(limit, items.length); worker++) {
    group.run(`worker ${worker}`, async (signal) => {
      // All workers take from the same iterator.
      for (const item of rest) {
        if (signal.aborted) return;
        await fn(item);
      }
    });
  }
  await group.wait();
}
