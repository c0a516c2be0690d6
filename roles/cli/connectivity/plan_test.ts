import assert from "node:assert/strict";
import { planProbes, type Probe, sampleNodes } from "./plan.ts";
import { probeText } from "./results.ts";
import { podOf, TARGETS } from "./testing.ts";

const NOTHING = {
  service: [],
  apiServer: { addresses: [], port: 443 },
  hostPort: undefined,
  egress: undefined,
};

function texts(probes: readonly Probe[], check: string): string[] {
  return probes.filter((probe) => probe.check === check).map(probeText);
}

Deno.test("planProbes() has every pod ask every other node's by TCP and UDP, in both families, small and large", () => {
  const probes = planProbes([1, 2, 3].map((n) => podOf(n)), NOTHING);
  const pods = texts(probes, "pod");
  assert.equal(pods.length, 3 * 2 * 2 * 2);
  assert.deepEqual(pods.slice(0, 5), [
    "Node node1 to 10.0.2.2:8080 (Node node2) by TCP",
    "Node node1 to 10.0.2.2:8080 (Node node2) by UDP",
    "Node node1 to [fd00::2:2]:8080 (Node node2) by TCP",
    "Node node1 to [fd00::2:2]:8080 (Node node2) by UDP",
    "Node node1 to 10.0.3.2:8080 (Node node3) by TCP",
  ]);
  assert.deepEqual(texts(probes, "large"), pods);
  for (const { question, from, family, sources } of probes) {
    const own = from.addresses.find((address) => address.family === family);
    assert.deepEqual(sources, [`${own}`]);
    assert.ok(question.kind === "tcp" || question.kind === "udp");
  }
  assert.equal(new Set(probes.map((p) => JSON.stringify(p))).size, 48);
});

Deno.test("planProbes() asks in families that both pods have", () => {
  const probes = planProbes(
    [podOf(1), podOf(2, { families: ["fd00::"] })],
    { ...NOTHING, service: TARGETS.service },
  );
  const families = probes.filter(({ to }) => to !== undefined)
    .map(({ family }) => family);
  assert.deepEqual(new Set(families), new Set(["ipv6"]));
  assert.deepEqual(texts(probes, "service"), [
    "Node node1 to 10.96.0.7:80 by TCP",
    "Node node1 to [fd96::7]:80 by TCP",
    "Node node2 to [fd96::7]:80 by TCP",
  ]);
});

Deno.test("planProbes() tests a port of the host from other nodes, and its pod within the node", () => {
  const published = podOf(1, { kind: "host-port" });
  const probes = planProbes([podOf(1), podOf(2), published], TARGETS);
  assert.deepEqual(texts(probes, "host-port"), [
    "Node node2 to 192.168.0.1:9399 by TCP",
    "Node node2 to [fd01::1]:9399 by TCP",
  ]);
  const within = probes.filter(({ check, from, to }) =>
    check === "pod" && from.node === to?.node
  );
  assert.deepEqual(
    new Set(within.map(({ from }) => from.kind)),
    new Set(["probe", "host-port"]),
  );
  assert.ok(
    !probes.some(({ from, to }) => from.node === "node2" && to === published),
  );
  const alone = planProbes([podOf(1), published], TARGETS);
  assert.equal(texts(alone, "host-port").length, 2);
});

Deno.test("planProbes() asks the API server from every node, and the target from the Egress' clients alone", () => {
  const egress = { url: "http://203.0.113.7/", sources: ["10.0.9.9"] };
  const probes = planProbes(
    [podOf(1), podOf(2), podOf(2, { kind: "egress" })],
    { ...TARGETS, egress },
  );
  assert.deepEqual(texts(probes, "api-server"), [
    "Node node1 to 10.96.0.1:443 by TCP",
    "Node node2 to 10.96.0.1:443 by TCP",
  ]);
  const outside = probes.filter(({ check }) => check === "egress");
  assert.deepEqual(outside.map(probeText), [
    "Node node2 to http://203.0.113.7/",
  ]);
  assert.deepEqual(outside[0]?.sources, ["10.0.9.9"]);
  const clients = probes.filter(({ from, to }) =>
    (to ?? from).kind === "egress"
  );
  assert.deepEqual(clients, outside);
});

Deno.test("sampleNodes() takes the same ones each time, spread over all", () => {
  const names = Array.from({ length: 100 }, (_, i) => `n${100 + i}`);
  const sample = sampleNodes(names, { max: 20 });
  assert.equal(sample.length, 20);
  assert.deepEqual(sampleNodes(names.toReversed(), { max: 20 }), sample);
  assert.deepEqual(sample.slice(0, 3), ["n100", "n105", "n110"]);
  assert.deepEqual(sampleNodes(["b", "a"], { max: 20 }), ["a", "b"]);
  assert.equal(new Set(sampleNodes(names.slice(0, 21), { max: 20 })).size, 20);
  assert.equal(sampleNodes(names, { max: Infinity }).length, 100);
});
