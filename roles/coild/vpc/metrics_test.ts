import assert from "node:assert/strict";
import { createRegistry } from "../../../lib/telemetry/mod.ts";
import { VpcMetrics } from "./metrics.ts";

Deno.test("VpcMetrics say what there is now, and count requests and actions", async () => {
  const registry = createRegistry();
  const figures = {
    eniCount: 2,
    blocks: [],
    addresses: { used: 3, cooling: 1, free: 2 },
    waiting: 4,
  };
  const metrics = new VpcMetrics(registry, () => figures);
  metrics.requested({ call: "CreateTags", result: "none", durationMs: 1_500 });
  metrics.began({ kind: "delete", eni: "eni-1" });
  const lines = async () =>
    (await registry.metrics()).split("\n")
      .filter((line) => line.startsWith("coil_vpc_"))
      .map((line) => line.slice("coil_vpc_".length));
  const first = await lines();
  for (
    const line of [
      "enis 2",
      'blocks{usable="true"} 0',
      'addresses{state="used"} 3',
      'addresses{state="cooling"} 1',
      'addresses{state="free"} 2',
      "waiting 4",
      'api_requests_total{call="CreateTags",result="none"} 1',
      'api_seconds_sum{call="CreateTags"} 1.5',
      'plan_actions_total{action="delete"} 1',
      'plan_actions_total{action="create"} 0',
    ]
  ) {
    assert.ok(first.includes(line), line);
  }
  figures.waiting = 0;
  assert.ok((await lines()).includes("waiting 0"));
});
