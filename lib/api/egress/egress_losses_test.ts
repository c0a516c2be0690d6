import assert from "node:assert/strict";
import type { EgressGatewayStatus, EgressLoss } from "./egress.ts";
import {
  gatewayLosses,
  lossText,
  lostGateways,
  suspectGateways,
} from "./egress_losses.ts";

function loss(address: string, changes: Partial<EgressLoss> = {}): EgressLoss {
  return {
    address,
    nodes: 2,
    nodeNames: ["n1", "n2"],
    since: "2026-01-02T03:04:05Z",
    endedConnections: 7,
    ...changes,
  };
}

const A: EgressGatewayStatus = {
  name: "nat-a",
  node: "w1",
  addresses: ["10.2.0.1", "fd02::1"],
};
const B: EgressGatewayStatus = { name: "nat-b", addresses: ["10.2.0.2"] };
const C: EgressGatewayStatus = { name: "nat-c", addresses: ["10.2.0.3"] };

Deno.test("gatewayLosses() adds up what several gateways were told about one", () => {
  const earlier = "2026-01-02T03:04:04Z";
  const gateways = [
    A,
    { ...B, losses: [loss("10.2.0.1")] },
    {
      ...C,
      losses: [
        loss("10.2.0.1", { nodes: 1, nodeNames: ["n0"], since: earlier }),
        loss("10.2.0.2", { nodes: 0, nodeNames: [] }),
      ],
    },
  ];
  const [a, b, ...more] = gatewayLosses(gateways);
  assert.deepEqual(a, {
    name: "nat-a",
    node: "w1",
    nodes: 3,
    nodeNames: ["n0", "n1", "n2"],
    since: earlier,
    endedConnections: 14,
  });
  assert.deepEqual([b?.name, b?.nodes, more], ["nat-b", 0, []]);
  assert.deepEqual(lostGateways(gateways), [a]);
});

Deno.test("gatewayLosses() has the time of the loss that lasts, else of the last one", () => {
  const timeAt = (second: number) => `2026-01-02T03:04:0${second}Z`;
  const since = (...reports: readonly (readonly [number, number])[]) =>
    gatewayLosses([
      A,
      ...reports.map(([second, nodes], i) => ({
        name: `nat-${i}`,
        losses: [loss("10.2.0.1", { since: timeAt(second), nodes })],
      })),
    ])[0]?.since;
  assert.equal(since([4, 0], [6, 1], [5, 1]), timeAt(5));
  assert.equal(since([4, 0], [6, 0], [5, 0]), timeAt(6));
});

Deno.test("suspectGateways() adds up what others say of a gateway, a node once for both addresses", () => {
  const suspect = (address: string, ...nodeNames: readonly string[]) => ({
    address,
    nodes: nodeNames.length,
    nodeNames,
  });
  const gateways = [
    { ...A, suspects: [suspect("10.2.0.1", "n9")] },
    {
      ...B,
      suspects: [
        suspect("10.2.0.1", "n1"),
        suspect("fd02::1", "n1", "n2"),
        suspect("10.2.0.77", "n1"),
      ],
    },
    { ...C, suspects: [suspect("10.2.0.1", "n3")] },
  ];
  assert.deepEqual(suspectGateways(gateways), [
    { name: "nat-a", nodes: 3, nodeNames: ["n1", "n2", "n3"] },
  ]);
});

Deno.test("gatewayLosses() counts a node once that has lost both addresses of a gateway, and all its connections", () => {
  const losses = [loss("fd02::1", { nodes: 1 }), loss("10.2.0.1")];
  const [a] = gatewayLosses([A, { ...B, losses }]);
  assert.deepEqual([a?.nodes, a?.endedConnections], [2, 14]);
});

Deno.test("gatewayLosses() ignores what is said about strangers, and by a gateway about itself", () => {
  const gateways = [
    { ...A, losses: [loss("10.2.0.1")] },
    { ...B, losses: [loss("10.2.0.77")] },
  ];
  assert.deepEqual(gatewayLosses(gateways), []);
});

Deno.test("lostGateways() are in the order of their names, 64 at most", () => {
  const many = Array.from({ length: 70 }, (_, i) => ({
    name: `nat-${i}`,
    addresses: [`10.3.0.${i}`],
  })).reverse();
  const reporter = {
    ...B,
    losses: many.map(({ addresses: [each = ""] }) => loss(each)),
  };
  const names = lostGateways([reporter, ...many]).map(({ name }) => name);
  assert.equal(names.length, 64);
  assert.deepEqual(names, names.toSorted());
});

Deno.test("lossText() says which gateway, who gets no answer, and what was done", () => {
  const text = (changes: Partial<EgressLoss>) => {
    const [a] = gatewayLosses([A, {
      ...B,
      losses: [loss("10.2.0.1", changes)],
    }]);
    assert.ok(a);
    return lossText(a);
  };
  const done =
    "their clients use other gateways, and 7 of their connections were ended";
  assert.equal(
    text({}),
    `nat-a on node w1 does not answer 2 nodes (n1, n2): ${done}`,
  );
  assert.equal(
    text({ nodes: 1, nodeNames: ["n1"] }),
    `nat-a on node w1 does not answer node n1: ${done}`,
  );
  assert.match(text({ nodes: 9 }), / 9 nodes \(n1, n2, …\): /);
});
