import assert from "node:assert/strict";
import { Address } from "../../../lib/inet/mod.ts";
import { loggedLines } from "../../../lib/telemetry/testing.ts";
import type { ClientPod } from "../clients/client_pod.ts";
import { LimitedClients, namesOf } from "./limited_clients.ts";
import type { DataPlane, FlowSummary } from "../base/ports.ts";

let lines: string[] = [];

const PODS: readonly ClientPod[] = [
  {
    namespace: "team",
    name: "a",
    uid: "u1",
    nodeName: "node1",
    addresses: [Address.parse("10.1.1.2"), Address.parse("fd01::2")],
  },
  {
    namespace: "team",
    name: "b",
    uid: "u2",
    nodeName: "node1",
    addresses: [Address.parse("10.1.1.3")],
  },
];

Deno.test("namesOf() names the pods, and the address of one that is not known", () => {
  const addresses = ["10.1.1.3", "10.9.9.9"].map((text) => Address.parse(text));
  assert.deepEqual([...namesOf(PODS, addresses).values()], [
    "team/b",
    "10.9.9.9",
  ]);
});

Deno.test("LimitedClients has the name of the client with the most connections, as soon as it is known", () => {
  const kernel = { limits: { flows: 100, isSupported: true } };
  const readings: { limited: undefined; flows: FlowSummary | undefined } = {
    limited: undefined,
    flows: undefined,
  };
  const clients = new LimitedClients({ kernel, readings, pods: () => PODS });
  assert.equal(clients.largest(), undefined);
  readings.flows = {
    established: 3,
    ports: [],
    clients: ["10.1.1.3", "10.1.1.2"].map((text, i) => ({
      address: Address.parse(text),
      flows: 2 - i,
    })),
  };
  assert.equal(clients.largest(), "team/b");
  readings.flows = { ...readings.flows, clients: [] };
  assert.equal(clients.largest(), undefined);
});

Deno.test("LimitedClients logs each client once as long as it is limited, with both families as one", () => {
  const readings: { limited: readonly Address[]; flows: undefined } = {
    limited: [],
    flows: undefined,
  };
  const kernel: Pick<DataPlane, "limits"> = {
    limits: { flows: 100, isSupported: true },
  };
  const clients = new LimitedClients({ kernel, readings, pods: () => PODS });
  const told = () => {
    lines = loggedLines();
    clients.report();
    return lines.map((line) => JSON.parse(line).client);
  };
  assert.deepEqual(told(), []);
  readings.limited = [Address.parse("10.1.1.2"), Address.parse("fd01::2")];
  assert.deepEqual(clients.names(), ["team/a"]);
  assert.deepEqual(told(), ["team/a"]);
  assert.equal(JSON.parse(lines[0] ?? "{}").flows, 100);
  assert.deepEqual(told(), []);
  readings.limited = [Address.parse("10.1.1.2"), Address.parse("10.1.1.3")];
  assert.deepEqual(told(), ["team/b"]);
  readings.limited = [];
  assert.deepEqual(told(), []);
  readings.limited = [Address.parse("10.1.1.2")];
  assert.deepEqual(told(), ["team/a"]);
});

Deno.test("LimitedClients says once that the kernel has no limits", () => {
  const kernel = { limits: { isSupported: false } };
  const clients = new LimitedClients({
    kernel,
    readings: { limited: [], flows: undefined },
    pods: () => PODS,
  });
  lines = loggedLines();
  clients.report();
  clients.report();
  assert.equal(lines.length, 1);
  assert.match(lines[0] ?? "", /nft_connlimit/);
});
