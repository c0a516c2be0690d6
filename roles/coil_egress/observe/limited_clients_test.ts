import assert from "node:assert/strict";
import { Address } from "../../../lib/inet/mod.ts";
import { loggedLines } from "../../../lib/telemetry/testing.ts";
import type { ClientPod } from "../clients/client_pod.ts";
import { LimitedClients, namesOf } from "./limited_clients.ts";
import type { DataPlane } from "../base/ports.ts";

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

Deno.test("LimitedClients has the name of any client, and the address of one that is not known", () => {
  const clients = new LimitedClients({
    kernel: { limits: { flows: 100, isSupported: true } },
    readings: { limited: [] },
    pods: () => PODS,
  });
  const names = ["10.1.1.3", "10.9.9.9"]
    .map((text) => clients.nameOf(Address.parse(text)));
  assert.deepEqual(names, ["team/b", "10.9.9.9"]);
});

Deno.test("LimitedClients logs each client once as long as it is limited, with both families as one", () => {
  const readings: { limited: readonly Address[] } = { limited: [] };
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
    readings: { limited: [] },
    pods: () => PODS,
  });
  lines = loggedLines();
  clients.report();
  clients.report();
  assert.equal(lines.length, 1);
  assert.match(lines[0] ?? "", /nft_connlimit/);
});
