import assert from "node:assert/strict";
import { Prefix } from "../../../lib/inet/mod.ts";
import type { KubeClient, ListOptions, V1Node } from "../../../lib/kube/mod.ts";
import { clusterOverlap, ClusterRanges } from "./cluster_ranges.ts";

const POOL = { subnets: [{ ipv4: Prefix.parse("10.0.0.0/8") }] };

function podCidr(n: number) {
  const prefix = Prefix.parse(`10.1.${n}.0/24`);
  return { prefix, what: `the podCIDR of Node "n${n}"`, isPodCidr: true };
}

Deno.test("clusterOverlap() calls podCIDRs harmless, and names none beside addresses in use", () => {
  const podCidrs = [0, 1, 2, 3].map(podCidr);
  const harmless = clusterOverlap(POOL, podCidrs);
  assert.equal(harmless?.reason, "InPodCIDR");
  assert.match(harmless.message, /; 1 more\. This is harmless/);
  const node = { prefix: Prefix.parse("10.2.0.1/32"), what: "a node" };
  const used = clusterOverlap(POOL, [...podCidrs, node]);
  assert.equal(used?.reason, "AddressesInUse");
  assert.match(used.message, /^10\.2\.0\.1\/32 is a node\. A pod with/);
  assert.equal(clusterOverlap({ subnets: [] }, podCidrs), undefined);
});

Deno.test("ClusterRanges reads few Nodes at a time, and tells of each", async () => {
  const abort = new AbortController();
  const limits: (number | undefined)[] = [];
  let noted = 0;
  const ranges = new ClusterRanges({
    client: {
      listAll: () => Promise.resolve({ items: [], resourceVersion: "1" }),
      listItems: ((
        _type: unknown,
        options: ListOptions,
        onItem: (node: V1Node) => void,
      ) => {
        limits.push(options.limit);
        const n = limits.length;
        onItem(
          {
            metadata: { name: `n${n}` },
            spec: { podCIDRs: [`10.1.${n}.0/24`] },
          } as V1Node,
        );
        const resourceVersion = "1";
        return Promise.resolve(
          n < 3 ? { resourceVersion, continue: `${n}` } : { resourceVersion },
        );
      }) as unknown as KubeClient["listItems"],
    },
    intervalMs: 60_000,
    onNode: () => noted++,
    onChanged: () => abort.abort(),
  });
  await ranges.run(abort.signal).catch(() => {});
  assert.deepEqual(limits, [50, 50, 50]);
  assert.equal(noted, 3);
  assert.match(ranges.overlap(POOL)?.message ?? "", /"n3"/);
});
