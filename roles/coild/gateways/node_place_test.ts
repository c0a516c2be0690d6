import assert from "node:assert/strict";
import { FakeClock } from "../../../lib/async/testing.ts";
import type { Egress } from "../../../lib/api/mod.ts";
import type { EgressFacts } from "../../../lib/egress/mod.ts";
import { KubeClient, KubeUnreachableError } from "../../../lib/kube/mod.ts";
import { MemoryApi } from "../../../lib/kube/testing.ts";
import { NodePlace } from "./node_place.ts";

function facts(
  spec: Partial<Egress["spec"]>,
  hints: { readonly forZones?: { name: string }[] } | undefined,
): EgressFacts {
  return {
    egress: {
      apiVersion: "coil.cybozu.com/v2",
      kind: "Egress",
      metadata: { name: "a" },
      spec: { destinations: ["192.0.2.0/24"], ...spec },
    },
    service: undefined,
    slices: [{
      addressType: "IPv4",
      endpoints: [{ addresses: ["10.1.0.4"], ...(hints && { hints }) }],
    }],
  };
}

const DIRECT = { gatewaySelection: "Direct" } as const;
const ZONED = facts(DIRECT, { forZones: [{ name: "a" }] });

class Lab {
  readonly api = new MemoryApi();
  readonly clock = new FakeClock();
  asked = 0;
  isAway = false;
  readonly place: NodePlace;

  constructor() {
    const client = new KubeClient(this.api);
    const { request } = this.api;
    this.api.request = async (...call) => {
      this.asked++;
      if (this.isAway) throw new KubeUnreachableError("away");
      return await request.apply(this.api, call);
    };
    this.place = new NodePlace(client, { node: "n1", clock: this.clock });
  }

  putNode(zone?: string): void {
    const labels = zone === undefined
      ? {}
      : { "topology.kubernetes.io/zone": zone };
    this.api.put("nodes", { metadata: { name: "n1", labels } });
  }

  async zoneFor(...all: readonly EgressFacts[]): Promise<string | undefined> {
    const { signal } = new AbortController();
    const { node, zone } = await this.place.for(all, { signal });
    assert.equal(node, "n1");
    return zone;
  }
}

Deno.test("NodePlace asks for the zone once, and only where it matters", async () => {
  const lab = new Lab();
  lab.putNode("a");
  assert.equal(await lab.zoneFor(facts(DIRECT, undefined)), undefined);
  assert.equal(await lab.zoneFor(facts(DIRECT, {})), undefined);
  const left = facts({}, { forZones: [{ name: "a" }] });
  assert.equal(await lab.zoneFor(left), undefined, "the Service chooses");
  assert.equal(lab.asked, 0);
  assert.equal(await lab.zoneFor(left, ZONED), "a");
  assert.equal(await lab.zoneFor(ZONED), "a");
  assert.equal(lab.asked, 1);
});

Deno.test("NodePlace asks again after a minute for a zone that the Node lacks, or that nothing answered", async () => {
  const lab = new Lab();
  lab.isAway = true;
  assert.equal(await lab.zoneFor(ZONED), undefined);
  lab.isAway = false;
  lab.putNode();
  lab.asked = 0;
  assert.equal(await lab.zoneFor(ZONED), undefined);
  assert.equal(lab.asked, 0, "within the minute");
  await lab.clock.advance(60_000);
  assert.equal(await lab.zoneFor(ZONED), undefined);
  lab.putNode("b");
  await lab.clock.advance(60_000);
  assert.equal(await lab.zoneFor(ZONED), "b");
  assert.equal(lab.asked, 2);
});

Deno.test("NodePlace reads the zone for all who ask at once, also when the first of them gives up", async () => {
  const lab = new Lab();
  lab.putNode("a");
  const first = lab.place.for([ZONED], { signal: AbortSignal.abort("enough") });
  const others = [lab.zoneFor(ZONED), lab.zoneFor(ZONED)];
  await assert.rejects(first, (reason) => reason === "enough");
  assert.deepEqual(await Promise.all(others), ["a", "a"]);
  assert.equal(lab.asked, 1);
});
