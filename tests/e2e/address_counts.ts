// How many addresses coild itself believes to be in use, by its metrics.
import { withTimeout } from "../../lib/async/mod.ts";
import { hostPort } from "../../lib/inet/mod.ts";
import type { ClusterNode } from "../lab/cluster/mod.ts";

/** Where coild's metrics are, at the node's addresses. */
const PORT = 9384;
/** It is a local answer of some kilobytes; a node that was off may swallow a packet of an old connection. */
const ANSWER_MS = 30_000;
const SAMPLE = /^coil_coild_addresses\{pool="(.*?)",state="(\w+)"\} (\d+)$/;

/** Addresses of a pool's blocks on a node that are in a state; a dual-stack pair counts once. */
export interface AddressCount {
  readonly pool: string;
  readonly state: string;
  readonly count: number;
}

/**
 * Asks a node's coild for its counts.
 *
 * @throws {Error} when it does not answer, as one that is being replaced.
 */
export async function countAddresses(
  node: ClusterNode,
): Promise<readonly AddressCount[]> {
  const url = `http://${hostPort(node.addresses[0] ?? "", PORT)}/metrics`;
  const { status, text } = await withTimeout(ANSWER_MS, async (signal) => {
    const response = await fetch(url, { signal });
    return { status: response.status, text: await response.text() };
  });
  if (text.includes("\n# TYPE coil_coild_addresses gauge\n")) {
    return parseCounts(text);
  }
  throw new Error(
    `Cannot find coild's addresses at "${url}": status ${status}, ${text.length} characters`,
  );
}

function parseCounts(text: string): readonly AddressCount[] {
  return text.split("\n").flatMap((line) => {
    const [, pool, state, count] = SAMPLE.exec(line) ?? [];
    if (pool === undefined || state === undefined) return [];
    return [{ pool, state, count: Number(count) }];
  });
}
