import assert from "node:assert/strict";
import { Address } from "../../inet/mod.ts";
import { CONNTRACK_STATUS, type ConntrackFlow } from "../../netlink/mod.ts";
import { FlowCounter } from "./flow_summary.ts";

const GATEWAY = Address.parse("10.1.2.2");
const CLIENT = Address.parse("10.1.1.2");
const OUTSIDE = Address.parse("203.0.113.9");
const { assured, seenReply, srcNat } = CONNTRACK_STATUS;

function flow(changes: Partial<ConntrackFlow> = {}): ConntrackFlow {
  return {
    family: "ipv4",
    protocol: 6,
    status: assured | seenReply | srcNat,
    originalSource: CLIENT,
    originalDestination: OUTSIDE,
    originalSourcePort: 40000,
    originalDestinationPort: 443,
    replySource: OUTSIDE,
    replyDestination: GATEWAY,
    replySourcePort: 443,
    replyDestinationPort: 40000,
    timeoutSeconds: 100,
    mark: 0,
    tcpState: "ESTABLISHED",
    ...changes,
  };
}

function count(flows: readonly Partial<ConntrackFlow>[], top = 10) {
  const counter = new FlowCounter([CLIENT]);
  for (const changes of flows) counter.add(flow(changes));
  return counter.summary(top);
}

Deno.test("FlowCounter passes over what no client began or what is not translated", () => {
  const { flows, ports } = count([
    { originalSource: GATEWAY },
    { originalSource: Address.parse("::a01:102"), family: "ipv6" },
    { status: assured | seenReply },
  ]);
  assert.equal(flows, 0);
  assert.deepEqual(ports, []);
});

Deno.test("FlowCounter lists the clients with the most connections first, and none without any", () => {
  const clients = ["10.1.1.2", "10.1.1.3", "10.1.1.4"].map(Address.parse);
  const counter = new FlowCounter(clients);
  for (const n of [0, 1, 1]) {
    counter.add(flow({ originalSource: clients[n] ?? CLIENT }));
  }
  assert.deepEqual(
    counter.summary(10).clients.map(({ address, flows }) =>
      `${address} ${flows}`
    ),
    ["10.1.1.3 2", "10.1.1.2 1"],
  );
});

Deno.test("FlowCounter counts as established what may still carry data", () => {
  const cases: readonly (readonly [Partial<ConntrackFlow>, number])[] = [
    [{}, 1],
    [{ tcpState: "FIN_WAIT" }, 1],
    [{ tcpState: "CLOSE_WAIT" }, 1],
    [{ tcpState: "LAST_ACK" }, 0],
    [{ tcpState: "TIME_WAIT" }, 0],
    [{ tcpState: "SYN_SENT", status: srcNat }, 0],
    [{ status: srcNat }, 0],
    [{ protocol: 17, tcpState: undefined }, 1],
    [{ protocol: 17, tcpState: undefined, status: srcNat | seenReply }, 0],
    [{ protocol: 1, tcpState: undefined }, 0],
    [{ protocol: 58, tcpState: undefined }, 0],
  ];
  for (const [changes, established] of cases) {
    const summary = count([changes]);
    assert.equal(summary.flows, 1);
    assert.equal(summary.established, established, JSON.stringify(changes));
  }
});

Deno.test("FlowCounter tells the port use of each protocol, destination and port, of all states", () => {
  const { ports } = count([
    {},
    { tcpState: "TIME_WAIT", replyDestinationPort: 40001 },
    { originalDestinationPort: 80 },
    { protocol: 17, tcpState: undefined },
    { originalDestination: GATEWAY },
  ]);
  const uses = ports.map(({ protocol, destination, port, used }) =>
    `${protocol} ${destination} ${port}: ${used}`
  );
  assert.equal(uses[0], "6 203.0.113.9 443: 2");
  assert.deepEqual(uses.slice(1).toSorted(), [
    "17 203.0.113.9 443: 1",
    "6 10.1.2.2 443: 1",
    "6 203.0.113.9 80: 1",
  ]);
});

Deno.test("FlowCounter has a limit for each class of source ports", () => {
  const limitOf = (changes: Partial<ConntrackFlow>) =>
    count([changes]).ports[0]?.limit;
  assert.equal(limitOf({ replyDestinationPort: 1024 }), 65535 - 1024 + 1);
  assert.equal(limitOf({ replyDestinationPort: 1023 }), 1023 - 600 + 1);
  assert.equal(limitOf({ replyDestinationPort: 511 }), 511);
  assert.equal(limitOf({ protocol: 1, replyDestinationPort: 7 }), 65536);
  assert.equal(limitOf({ protocol: 47 }), 1);
});

Deno.test("FlowCounter knows of each destination the client with the most connections there, not the one with the most in all", () => {
  const [few = CLIENT, many = CLIENT] = ["10.1.1.2", "10.1.1.3"]
    .map(Address.parse);
  const counter = new FlowCounter([few, many]);
  const add = (client: Address, port: number, times: number) => {
    for (let i = 0; i < times; i++) {
      counter.add(flow({
        originalSource: client,
        originalDestinationPort: port,
      }));
    }
  };
  add(many, 443, 1);
  add(few, 443, 3);
  add(many, 80, 2);
  add(many, 8080, 2);
  const { ports, clients } = counter.summary(10);
  assert.deepEqual(
    ports.map(({ port, used, largest }) => [port, used, String(largest)]),
    [[443, 4, "10.1.1.2"], [80, 2, "10.1.1.3"], [8080, 2, "10.1.1.3"]],
  );
  assert.equal(String(clients[0]?.address), "10.1.1.3");
});

Deno.test("FlowCounter takes all echo requests to a destination together", () => {
  const { ports } = count([
    { protocol: 1, originalDestinationPort: 1 },
    { protocol: 1, originalDestinationPort: 2 },
  ]);
  assert.equal(ports.length, 1);
  assert.equal(ports[0]?.used, 2);
  assert.equal(ports[0]?.port, 0);
});

Deno.test("FlowCounter puts the destination with the largest share first", () => {
  const { ports } = count([
    ...Array.from({ length: 100 }, (_, i) => ({
      replyDestinationPort: 2000 + i,
    })),
    ...Array.from({ length: 10 }, (_, i) => ({
      originalDestinationPort: 2049,
      replyDestinationPort: 700 + i,
    })),
    { originalDestinationPort: 22 },
  ], 2);
  assert.deepEqual(ports.map(({ port }) => port), [2049, 443]);
});
