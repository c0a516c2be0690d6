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

/** An Egress with gateways "a", "b", "c" and "d"; the last two have the reports. */
function eventsLab() {
  const events = new LossEvents();
  let named: readonly string[] = [];
  return {
    events,
    /** The Events when "c" and "d" have these entries, and the status names the gateways. */
    take(
      is: readonly string[],
      { losses = [], ofD = [], second = 0, names = ["a", "b", "c", "d"] }: {
        readonly losses?: Losses;
        readonly ofD?: Losses;
        readonly second?: number;
        readonly names?: readonly string[];
      } = {},
    ): string[] {
      const gateways = names.map((name) => ({
        name,
        node: `node-${name}`,
        addresses: [`address of ${name}`],
        losses: name === "c" ? losses : name === "d" ? ofD : [],
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
  assert.deepEqual(take([], { names: ["a", "c", "d"] }), []);
});

Deno.test("LossEvents says when nodes choose a gateway again that is back, also of one that was lost before the start", () => {
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
  // Another gateway's return is not this one's.
  const ofOthers = lossesOf({ b: 0 });
  assert.deepEqual(take([], { losses: ofOthers, second: 70 }), []);
  const losses = lossesOf({ a: 1 }, 1);
  assert.deepEqual(take(["a"], { losses, second: 100 }), []);
  assert.deepEqual(take([], { losses: lossesOf({ a: 0 }), second: 200 }), [
    back("a"),
  ]);
});

Deno.test("LossEvents has none when the reports are away, and the gateway that had them before has still an entry of the loss", () => {
  const { take } = eventsLab();
  take(["a"], { losses: lossesOf({ a: 1 }) });
  take(["a"], { losses: lossesOf({ a: 1 }), ofD: lossesOf({ a: 1 }) });
  // The node reports to "d" alone, and "c" has forgotten it.
  const losses = lossesOf({ a: 0 });
  assert.deepEqual(take(["a"], { losses, ofD: lossesOf({ a: 1 }) }), []);
  const names = ["a", "b", "c"];
  assert.deepEqual(take([], { losses, second: 200, names }), []);
  assert.deepEqual(take([], { losses, second: 205, names }), []);
  const again = { losses: lossesOf({ a: 1 }, 1), second: 260, names };
  assert.deepEqual(take(["a"], again), []);
  const end = { losses: lossesOf({ a: 0 }, 1), second: 300, names };
  assert.deepEqual(take([], end), [back("a")]);
});

Deno.test("LossEvents has none when the reports are away, and another gateway has still an entry of a former loss", () => {
  const { take } = eventsLab();
  take(["a"], { ofD: lossesOf({ a: 1 }) });
  const ofD = lossesOf({ a: 0 });
  assert.deepEqual(take([], { ofD, second: 60 }), [back("a")]);
  const next = { losses: lossesOf({ a: 1 }, 600), ofD, second: 600 };
  assert.deepEqual(take(["a"], next), [lost("a")]);
  const names = ["a", "b", "d"];
  assert.deepEqual(take([], { ofD, second: 700, names }), []);
  const again = { ofD: lossesOf({ a: 1 }, 601), second: 760, names };
  assert.deepEqual(take(["a"], again), []);
  const end = { ofD: lossesOf({ a: 0 }, 601), second: 800, names };
  assert.deepEqual(take([], end), [back("a")]);
});

Deno.test("LossEvents takes no return from a gateway's own entry", () => {
  const { take } = eventsLab();
  take(["c"], { ofD: lossesOf({ c: 1 }) });
  assert.deepEqual(take([], { losses: lossesOf({ c: 0 }), second: 60 }), []);
});

Deno.test("LossEvents has one of the next loss of a gateway, whatever an entry says of a former one", () => {
  const { take } = eventsLab();
  const ofD = lossesOf({ a: 0 }, -100);
  take(["a"], { losses: lossesOf({ a: 1 }), ofD });
  take([], { ofD, second: 60 });
  const losses = lossesOf({ a: 1 }, 61);
  assert.deepEqual(take(["a"], { losses, ofD, second: 70 }), [lost("a")]);
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
