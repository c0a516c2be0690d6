import assert from "node:assert/strict";
import type { EgressGatewayStatus } from "../../../lib/api/mod.ts";
import { LossEvents } from "./loss_events.ts";

const START_MS = Date.parse("2026-01-02T03:04:05Z");

type Losses = NonNullable<EgressGatewayStatus["losses"]>;

/** That so many nodes have lost these gateways, so many seconds after the start. */
function lossesOf(
  nodes: Readonly<Record<string, number>>,
  second = 0,
): Losses {
  return Object.entries(nodes).map(([name, count]) => ({
    address: `address of ${name}`,
    nodes: count,
    nodeNames: count > 0 ? ["n1"] : [],
    since: new Date(START_MS + 1_000 * second).toISOString(),
    endedConnections: 7,
  }));
}

/** An Egress with gateways "a", "b" and "c", the last of which has the reports. */
function eventsLab() {
  const events = new LossEvents();
  let named: readonly string[] = [];
  return {
    events,
    /** The Events when "c" has these entries, and the status names the gateways. */
    take(
      is: readonly string[],
      { losses = [], second = 0, names = ["a", "b", "c"] }: {
        readonly losses?: Losses;
        readonly second?: number;
        readonly names?: readonly string[];
      } = {},
    ): string[] {
      const gateways = names.map((name) => ({
        name,
        node: `node-${name}`,
        addresses: [`address of ${name}`],
        losses: name === "c" ? losses : [],
      }));
      const before = named.length === 0 ? undefined : { lostGateways: named };
      named = is;
      const after = is.length === 0 ? {} : { lostGateways: is };
      const nowMs = START_MS + 1_000 * second;
      return events.take("nat", { before, after, gateways, nowMs }).map((
        { type, reason, message },
      ) => `${type} ${reason}: ${message.split(/[:;]/)[0]}`);
    },
  };
}

const lost = (name: string, nodes = "node n1") =>
  `Warning GatewayLost: ${name} on node node-${name} does not answer ${nodes}`;
const back = (name: string) =>
  `Normal GatewayBack: ${name} on node node-${name} answers all nodes again`;

Deno.test("LossEvents has one of each gateway that is lost, and one when it answers again", () => {
  const { take } = eventsLab();
  assert.deepEqual(take([]), []);
  assert.deepEqual(take(["a"], { losses: lossesOf({ a: 2 }) }), [
    lost("a", "2 nodes (n1, …)"),
  ]);
  assert.deepEqual(take(["a"], { losses: lossesOf({ a: 3 }) }), []);
  assert.deepEqual(take(["a", "b"], { losses: lossesOf({ a: 2, b: 1 }) }), [
    lost("b"),
  ]);
  assert.deepEqual(take(["b"], { losses: lossesOf({ a: 0, b: 1 }) }), [
    back("a"),
  ]);
  assert.deepEqual(take(["b"], { losses: lossesOf({ a: 0, b: 1 }) }), []);
  // Its pod is gone, as everyone can see.
  assert.deepEqual(take([], { names: ["a", "c"] }), []);
});

Deno.test("LossEvents says when nodes choose a gateway again that is back", () => {
  const events = new LossEvents();
  const [event] = events.take("nat", {
    before: { lostGateways: ["a"] },
    after: {},
    gateways: [
      { name: "a", addresses: ["address of a"] },
      { name: "c", addresses: [], losses: lossesOf({ a: 0 }) },
    ],
    nowMs: START_MS,
  });
  assert.equal(
    event?.message,
    "a answers all nodes again; each gives it new connections 5 s to 5 min after its first answer",
  );
});

Deno.test("LossEvents has none while nodes' reports are away with the gateway that had them, or come to another", () => {
  const { take } = eventsLab();
  take(["a"], { losses: lossesOf({ a: 1 }) });
  assert.deepEqual(take([], { second: 60 }), []);
  assert.deepEqual(take([], { second: 70 }), []);
  const losses = lossesOf({ a: 1 }, 1);
  assert.deepEqual(take(["a"], { losses, second: 100 }), []);
  assert.deepEqual(take([], { losses: lossesOf({ a: 0 }), second: 200 }), [
    back("a"),
  ]);
});

Deno.test("LossEvents has one of the next loss of a gateway whose return no report said", () => {
  const { take } = eventsLab();
  take(["a"], { losses: lossesOf({ a: 1 }) });
  take([], { second: 60 });
  const losses = lossesOf({ a: 1 }, 61);
  assert.deepEqual(take(["a"], { losses, second: 70 }), [lost("a")]);
});

Deno.test("LossEvents has one of a gateway that comes back while the status does not name it", () => {
  const { take } = eventsLab();
  take(["a"], { losses: lossesOf({ a: 1 }) });
  take([], { second: 60 });
  assert.deepEqual(take([], { losses: lossesOf({ a: 0 }), second: 90 }), [
    back("a"),
  ]);
  assert.deepEqual(take([], { losses: lossesOf({ a: 0 }), second: 95 }), []);
});

Deno.test("LossEvents forgets an Egress that is gone", () => {
  const { events, take } = eventsLab();
  take(["a"], { losses: lossesOf({ a: 1 }) });
  take([], { second: 60 });
  events.forget("nat");
  assert.deepEqual(take(["a"], { losses: lossesOf({ a: 1 }), second: 70 }), [
    lost("a"),
  ]);
});
