import assert from "node:assert/strict";
import {
  Address,
  type DualStack,
  mapDualStack,
  Prefix,
} from "../../lib/inet/mod.ts";
import { planRoutes, type RoutedBlock, type RoutePlan } from "./route_plan.ts";

const NODES = new Map<string, DualStack<Address>>(
  Object.entries({
    self: { ipv4: "192.168.0.1", ipv6: "fd10::1" },
    v6: { ipv6: "fd10::2" },
    v4: { ipv4: "192.168.0.3" },
    dual: { ipv4: "192.168.0.4", ipv6: "fd10::4" },
  }).map(([name, texts]) => [name, mapDualStack(texts, Address.parse)]),
);

function block(
  name: string,
  node: string,
  prefixes: DualStack<string>,
): RoutedBlock {
  return { name, node, prefixes: mapDualStack(prefixes, Prefix.parse) };
}

function text({ routes }: RoutePlan): string[] {
  return routes.map((r) => `${r.destination} via ${r.gateway}`);
}

const BLOCKS = [
  block("p-0", "self", { ipv4: "10.2.0.0/27", ipv6: "fd02::/123" }),
  block("p-1", "missing", { ipv4: "10.2.1.0/27", ipv6: "fd02::100/123" }),
  block("p-2", "v6", { ipv4: "10.2.2.0/27", ipv6: "fd02::200/123" }),
  block("p-3", "v4", { ipv4: "10.2.3.0/27", ipv6: "fd02::300/123" }),
  block("p-4", "dual", { ipv4: "10.2.4.0/27", ipv6: "fd02::400/123" }),
];

const ROUTES = [
  "fd02::200/123 via fd10::2",
  "10.2.3.0/27 via 192.168.0.3",
  "10.2.4.0/27 via 192.168.0.4",
  "fd02::400/123 via fd10::4",
];

Deno.test("SV-15: planRoutes() skips the own and unknown nodes, and families a node lacks", () => {
  const plan = planRoutes({ nodeName: "self", nodes: NODES, blocks: BLOCKS });
  assert.deepEqual(text(plan), ROUTES);
  assert.deepEqual(plan.withoutAddress, ["v4", "v6"]);
});

Deno.test("SV-16: planRoutes() adds single-stack blocks of a dual-stack node", () => {
  const blocks = [
    ...BLOCKS,
    block("q-0", "dual", { ipv4: "10.3.0.0/27" }),
    block("r-0", "dual", { ipv6: "fd03::/123" }),
  ];
  const plan = planRoutes({ nodeName: "self", nodes: NODES, blocks });
  assert.deepEqual(text(plan), [
    ...ROUTES,
    "10.3.0.0/27 via 192.168.0.4",
    "fd03::/123 via fd10::4",
  ]);
});

Deno.test("planRoutes() orders by the blocks' names, so that every node decides alike", () => {
  const reversed = BLOCKS.toReversed();
  const plan = planRoutes({ nodeName: "self", nodes: NODES, blocks: reversed });
  assert.deepEqual(text(plan), ROUTES);
});
