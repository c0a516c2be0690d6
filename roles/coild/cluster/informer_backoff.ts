import { Backoff } from "../../../lib/async/mod.ts";

/**
 * Delays of a cache that lost the API server. Shorter at the longest than
 * client-go's 30 s: a starting daemon serves nobody before all caches are
 * there. Half of each delay is random, so thousands of nodes do not come back
 * at once.
 */
export function informerBackoff(): Backoff {
  return new Backoff({ initialMs: 200, maxMs: 10_000 });
}
