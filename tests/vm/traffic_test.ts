import assert from "node:assert/strict";
import { inNetns, run } from "../lab/mod.ts";
import {
  createTopology,
  OUTSIDE,
  seenSources,
  takeSources,
  VM_FAMILIES,
} from "./topology.ts";
import {
  askTcp,
  askUdp,
  fetchBulk,
  NetnsSockets,
  OutsideServers,
  TcpFlow,
  UdpFlow,
} from "./traffic.ts";
import { eventually } from "../lab/mod.ts";

Deno.test("traffic: the outside tells every source, and counts those that are no gateway's", async () => {
  await using topology = await createTopology();
  await using _servers = new OutsideServers(topology.outside);
  const [node] = topology.nodes;
  using sockets = new NetnsSockets(node.netns);
  for (const family of VM_FAMILIES) {
    const { near, far } = OUTSIDE[family];
    const own = node.addresses[family];
    assert.equal(await askTcp(sockets, near), own);
    const answer = await askUdp(sockets, far, { answerBytes: 1200 });
    assert.deepEqual(answer, { source: own, bytes: 1200 });
    assert.equal(await fetchBulk(sockets, near, 50_000), 50_000);
  }
  const taken = await takeSources();
  assert.ok(taken.wrong > 0);
  assert.deepEqual(
    taken.wrongSources.toSorted(),
    Object.values(node.addresses).toSorted(),
  );
  const { wrong, wrongSources } = await seenSources();
  assert.deepEqual({ wrong, wrongSources }, { wrong: 0, wrongSources: [] });
});

Deno.test("traffic: packets of a gateway's address are right", async () => {
  await using topology = await createTopology();
  const [node] = topology.nodes;
  await run("ip", [
    "-n",
    node.netns,
    "addr",
    "add",
    "10.65.0.1/32",
    "dev",
    "lo",
  ]);
  await topology.route("10.65.0.1/32", node);
  await inNetns(node.netns, "ping", [
    ...["-c2", "-i0.1", "-W30", "-I10.65.0.1", OUTSIDE.ipv4.near],
  ]);
  const seen = await seenSources();
  assert.equal(seen.wrong, 0, seen.wrongSources.join());
  assert.equal(seen.right.ipv4, 2);
  await run("ip", ["route", "delete", "10.65.0.1/32"]);
});

Deno.test("traffic: flows notice when their way is cut, and when it is back", async () => {
  await using topology = await createTopology();
  await using _servers = new OutsideServers(topology.outside);
  const [node] = topology.nodes;
  using sockets = new NetnsSockets(node.netns);
  const address = OUTSIDE.ipv4.near;
  await using tcp = await TcpFlow.open(sockets, { address });
  await using udp = new UdpFlow(sockets, { address });
  await eventually("answers", () => udp.report.answered > 2);
  await run("ip", ["link", "set", "outside0", "down"]);
  await eventually("a gap", () => udp.report.longestGapMs > 700);
  await run("ip", ["link", "set", "outside0", "up"]);
  const before = udp.report.answered;
  await eventually("answers", () => udp.report.answered > before);
  await eventually("the connection to go on", () => {
    const { answered, longestGapMs } = tcp.report;
    return answered > 4 && longestGapMs > 500;
  });
  assert.deepEqual([...udp.report.sources], [node.addresses.ipv4]);
  assert.equal(tcp.report.error, undefined);
});
