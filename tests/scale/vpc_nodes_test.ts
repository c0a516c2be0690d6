// Nodes with addresses of the VPC that start together do not keep one another from EC2.
import assert from "node:assert/strict";
import type { CallKind } from "../../lib/aws/query/budget.ts";
import { targetsOf } from "../../lib/vpc/testing.ts";
import { Random } from "../faults/random.ts";
import { type Started, startNodes, type Starts } from "./vpc_nodes.ts";

/** What an account has without a request for more, here for all calls that read, and for all that change. */
const RATES = {
  read: { burst: 100, perSecond: 20 },
  change: { burst: 50, perSecond: 5 },
};
/** An m5.large. */
const LIMITS = { enis: 3, addressesPerEni: 10, prefixes: true };

async function start(
  starts: Pick<Starts, "nodes" | "targets" | "pods">,
): Promise<Started[]> {
  const random = new Random(starts.nodes);
  return await startNodes({
    ...starts,
    withinMs: 60_000,
    rates: RATES,
    limits: LIMITS,
    random: () => random.next(),
  });
}

/** How long the account takes for so many nodes when each makes as many calls as one alone. */
function shareMs(nodes: number, { made }: Started): number {
  const ofKind = (kind: CallKind) =>
    nodes * made[kind] / RATES[kind].perSecond * 1_000;
  return Math.max(ofKind("read"), ofKind("change"));
}

for (
  const [what, node] of Object.entries({
    "a prefix": {
      targets: targetsOf({ kind: "prefix", warmPrefixes: 1 }),
      pods: 0,
    },
    "addresses for 12 pods on two ENIs": {
      targets: targetsOf({ warmIps: 1, minIps: 1 }),
      pods: 12,
    },
  })
) {
  Deno.test(`of 2,000 nodes that start within a minute and need ${what} each, none waits more than twice its share`, async () => {
    const [alone] = await start({ nodes: 1, ...node });
    assert.ok(alone);
    assert.equal(alone.refused, 0);
    const all = await start({ nodes: 2_000, ...node });
    const share = shareMs(all.length, alone);
    const longest = Math.max(...all.map(({ waitedMs }) => waitedMs));
    assert.ok(longest <= 2 * share, `${longest} ms, of ${share}`);
    assert.ok(longest > share / 2, `only ${longest} ms, of ${share}`);
    const made = all.reduce((sum, { made }) => sum + made.change, 0);
    const least = all.length * alone.made.change;
    assert.ok(made <= 1.05 * least, `${made} changes, where ${least} will do`);
  });
}
