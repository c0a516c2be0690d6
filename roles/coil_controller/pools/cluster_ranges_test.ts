import assert from "node:assert/strict";
import { Prefix } from "../../../lib/inet/mod.ts";
import { KubeClient, type V1Node } from "../../../lib/kube/mod.ts";
import { FakeTransport } from "../../../lib/kube/testing.ts";
import {
  settle,
  untilPasses,
  untilStopped,
} from "../../../lib/async/testing.ts";
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
  const three = clusterOverlap(POOL, podCidrs.slice(1));
  assert.match(three?.message ?? "", /of Node "n3"\. This is harmless/);
  const node = { prefix: Prefix.parse("10.2.0.1/32"), what: "a node" };
  const used = clusterOverlap(POOL, [...podCidrs, node]);
  assert.equal(used?.reason, "AddressesInUse");
  assert.match(used.message, /^10\.2\.0\.1\/32 is a node\. A pod with/);
  assert.equal(clusterOverlap({ subnets: [] }, podCidrs), undefined);
});

/** Reads as often as there are Nodes given, and says what the pool overlaps then. */
async function overlapsOf(
  versions: readonly (readonly V1Node[])[],
): Promise<{ messages: string[]; calls: string[] }> {
  const abort = new AbortController();
  const calls: string[] = [];
  const messages: string[] = [];
  let reads = 0;
  const ranges = new ClusterRanges({
    client: {
      listAll: ((type: { plural: string }) => {
        calls.push(type.plural);
        return Promise.resolve({ items: [], resourceVersion: "1" });
      }) as unknown as KubeClient["listAll"],
    },
    nodes: {
      list: () => {
        if (++reads > versions.length) abort.abort();
        return [...versions[Math.min(reads, versions.length) - 1] ?? []];
      },
    },
    intervalMs: 1,
    onChanged: () => messages.push(ranges.overlap(POOL)?.message ?? ""),
  });
  const { signal } = abort;
  const known = ranges.known({ signal }).then(() => messages.length);
  await untilStopped(ranges.run(signal), signal);
  assert.equal(await known, 1, "known with the first");
  return { messages, calls };
}

Deno.test("ClusterRanges does without ServiceCIDRs that the API server does not have or allow, and waits for those that it cannot read now", async () => {
  for (const status of [403, 404, 400]) {
    using stop = new DisposableStack();
    const abort = new AbortController();
    stop.defer(() => abort.abort());
    const transport = new FakeTransport(() => ({ status, body: {} }));
    let changes = 0;
    const ranges = new ClusterRanges({
      client: new KubeClient(transport),
      nodes: { list: () => [node("a", "1.2.3.4", "10.1.0.0/24")] },
      intervalMs: 3_600_000,
      onChanged: () => changes++,
    });
    void untilStopped(ranges.run(abort.signal), abort.signal);
    await untilPasses(() => assert.equal(transport.requests.length, 1));
    if (status !== 400) await ranges.known(abort);
    await settle();
    assert.equal(changes, status === 400 ? 0 : 1, `${status}`);
    assert.equal(transport.requests.length, 1, "until the next time");
  }
});

function node(name: string, address: string, podCIDR: string): V1Node {
  return {
    metadata: { name },
    spec: { podCIDRs: [podCIDR] },
    status: { addresses: [{ type: "ExternalIP", address }] },
  };
}

Deno.test("ClusterRanges takes Nodes from the cache, and asks for ServiceCIDRs alone", async () => {
  const a = node("a", "1.2.3.4", "10.1.0.0/24");
  const b = node("b", "10.2.0.1", "11.0.0.0/24");
  // Neither is a range.
  const odd = node("odd", "host.example", "10.3.0.0");
  const { messages, calls } = await overlapsOf([[a], [a], [odd, a, b]]);
  assert.equal(messages.length, 2, "called on changes only");
  assert.match(
    messages[0] ?? "",
    /^10\.1\.0\.0\/24 is the podCIDR of Node "a"/,
  );
  assert.match(
    messages[1] ?? "",
    /^10\.2\.0\.1\/32 is the address of Node "b"/,
  );
  assert.deepEqual([...new Set(calls)], ["servicecidrs"]);
});
