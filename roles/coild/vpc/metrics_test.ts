import assert from "node:assert/strict";
import { createRegistry } from "../../../lib/telemetry/mod.ts";
import type { EniBlock } from "../../../lib/vpc/mod.ts";
import { VpcMetrics } from "./metrics.ts";

Deno.test("VpcMetrics say what there is now, and count requests and actions", async () => {
  const registry = createRegistry();
  const figures = {
    eniCount: 2,
    blocks: [true, true, true, false].map((usable) => ({ usable } as EniBlock)),
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
      'blocks{usable="true"} 3',
      'blocks{usable="false"} 1',
      'addresses{state="used"} 3',
      'addresses{state="cooling"} 1',
      'addresses{state="free"} 2',
      "waiting 4",
      'api_requests_total{call="CreateTags",result="none"} 1',
      'api_seconds_sum{call="CreateTags"} 1.5',
      'plan_actions_total{action="delete"} 1',
      // A rate has to begin somewhere.
      ...["assign", "attach", "create", "detach", "endWithInstance", "unassign"]
        .map((action) => `plan_actions_total{action="${action}"} 0`),
    ]
  ) {
    assert.ok(first.includes(line), line);
  }
  const bounds = first.flatMap((line) =>
    /^api_seconds_bucket\{le="([^"]*)"/.exec(line)?.[1] ?? []
  );
  // Of calls of 200 ms, and of one that is made again for seconds.
  for (const le of ["0.1", "0.2", "5"]) assert.ok(bounds.includes(le), le);
  figures.waiting = 0;
  assert.ok((await lines()).includes("waiting 0"));
});
