// Coil as it is shipped, on a kernel that cannot make tunnels.
import assert from "node:assert/strict";
import { EGRESSES } from "../../lib/api/mod.ts";
import { SERVICES } from "../../lib/kube/mod.ts";
import { inNetns } from "../lab/mod.ts";
import type { LabProcess } from "../lab/process.ts";
import { eventually } from "../lab/wait.ts";
import { EgressCluster } from "./e2e_cluster.ts";
import { GATEWAYS } from "./e2e_objects.ts";
import { kernelWithoutTunnels } from "./kernel_modules.ts";
import { OUTSIDE, OUTSIDE_NETWORKS } from "./topology.ts";
import { askTcp } from "./traffic.ts";

const EGRESS = "tunnels";
const BUSY_MS = 120_000;

Deno.test("a kernel without tunnels: coild says so and serves the other pods, until it has them", async () => {
  // First of all, since it needs modules of other kinds.
  await using cluster = await EgressCluster.start();
  const [node] = cluster.nodes;
  await cluster.daemonOf(node).kill9();
  await using kernel = await kernelWithoutTunnels();
  const coild = await cluster.startCoild(node);
  const said = await lineOf(
    coild,
    "This kernel does not support egress clients",
  );
  assert.match(said, /Module fou not found.*modules-load\.d/);

  using plain = await cluster.createClient({ name: "plain" });
  await inNetns(plain.pod.sandbox.netns, "ping", [
    ...["-c1", "-w20", node.addresses.ipv4],
  ]);

  await cluster.access.client.create(EGRESSES, {
    apiVersion: "coil.cybozu.com/v2",
    kind: "Egress",
    metadata: { namespace: GATEWAYS, name: EGRESS },
    spec: { destinations: [OUTSIDE_NETWORKS.ipv4.near], replicas: 1 },
  });
  await eventually("the Service of the Egress", () => serviceOf(cluster), {
    timeoutMs: BUSY_MS,
  });
  await assert.rejects(
    cluster.createClient({ name: "refused", egresses: EGRESS }),
    /Cannot ADD .*Cannot use ipv4 Foo-over-UDP tunnels/s,
  );
  const gateway = await eventually(
    "the gateway's process",
    () => cluster.gatewaysOf(EGRESS)[0],
    { timeoutMs: BUSY_MS },
  );
  assert.match(
    await lineOf(gateway.process, "Foo-over-UDP"),
    /Cannot use ipv4 Foo-over-UDP tunnels.*Module fou not found/,
  );

  // Nobody restarts anything.
  await kernel.repair();
  await cluster.gatewaysReady(EGRESS, 1);
  using client = await cluster.createClient({
    name: "served",
    egresses: EGRESS,
  });
  const addresses = cluster.gatewaysOf(EGRESS).flatMap((g) => g.pod.addresses);
  // It is refused until coild knows that the gateway is ready.
  const source = await eventually(
    "an answer",
    () => askTcp(client.sockets, OUTSIDE.ipv4.near),
  );
  assert.ok(addresses.includes(source), `${source} is none of ${addresses}`);
});

/** The line of the log that has this in it, when it has come. */
async function lineOf(process: LabProcess, text: string): Promise<string> {
  return await eventually(`"${text}" in the log`, async () => {
    const lines = (await process.logs()).split("\n");
    return lines.find((line) => line.includes(text));
  }, { timeoutMs: BUSY_MS });
}

async function serviceOf({ access }: EgressCluster): Promise<boolean> {
  await access.client.get(SERVICES, { namespace: GATEWAYS, name: EGRESS });
  return true;
}
