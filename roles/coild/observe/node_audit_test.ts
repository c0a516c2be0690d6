import assert from "node:assert/strict";
import { FakeClock, untilStopped } from "../../../lib/async/testing.ts";
import type { NodeAddresses } from "../../../lib/cnirpc/inspection/mod.ts";
import type { EventInfo } from "../../../lib/kube/mod.ts";
import { Registry } from "../../../lib/telemetry/mod.ts";
import { NodeEvents } from "./node_events.ts";
import { NodeAudit } from "./node_audit.ts";

const ENTRY = { containerId: "c1", ifname: "eth0", addresses: ["10.2.0.9"] };

/** A node where a pod has an address. */
const WELL: NodeAddresses = {
  node: "n1",
  kernel: [{ ...ENTRY, state: "up" }],
  table: [{
    ...ENTRY,
    pool: "default",
    state: "used",
    ageSeconds: 600,
    isBusy: false,
    generation: 1,
  }],
  pods: [{
    namespace: "apps",
    name: "web",
    addresses: ENTRY.addresses,
    isEnding: false,
  }],
  blocks: { "default-0": ["10.2.0.0/27"] },
};
const LEAKED: NodeAddresses = { ...WELL, pods: [] };

Deno.test("NodeAudit reports a leak by its metric, and by one Event until it changes; what it does not know it does not report", async () => {
  const clock = new FakeClock();
  const registry = new Registry();
  const events: string[] = [];
  let now = WELL;
  let reads = 0;
  const audit = new NodeAudit({
    read: () => {
      reads++;
      return Promise.resolve(now);
    },
    registry,
    nodeEvents: new NodeEvents({
      event: ({ kind, name, uid }, { reason, message }: EventInfo) =>
        void events.push(`${reason} of ${kind} ${name} ${uid}: ${message}`),
    }, { nodeName: "n1", nodeUid: () => "u1" }),
    intervalMs: 600_000,
    clock,
  });
  const stop = new AbortController();
  const running = untilStopped(audit.run(stop.signal), stop.signal);
  const leaks = async () => {
    const text = await registry.metrics();
    return /_findings\{code="address-leaked"\} (\d+)/.exec(text)?.[1];
  };
  const audited = async () => {
    const before = reads;
    while (reads === before) await clock.advance(1_000);
    await clock.advance(46_000);
  };
  assert.equal(await leaks(), undefined);
  await audited();
  assert.equal(await leaks(), "0");
  now = LEAKED;
  await audited();
  await audited();
  assert.equal(await leaks(), "1");
  assert.deepEqual(events, [
    "AddressesInconsistent of Node n1 u1: Address 10.2.0.9 on Node n1: container c1:eth0 has had it for 10m, but no pod of the node has it. What to do: coil ipam check --nodes",
  ]);
  const { pods: _, ...unread } = LEAKED;
  now = unread;
  await audited();
  assert.equal(await leaks(), undefined);
  now = WELL;
  await audited();
  assert.equal(await leaks(), "0");
  assert.equal(events.length, 1);
  now = LEAKED;
  await audited();
  assert.equal(events.length, 2);
  stop.abort();
  await running;
});
